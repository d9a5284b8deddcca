-- What is for sale, where and when. The database keeps what must stay true of it: plans never change, a seat id belongs
-- to one plan, an event carries one shard for ever.

-- Set for the role, not for a session: it works through a pooler and beats a database's own default.
DO $$
DECLARE
  setting text;
BEGIN
  FOREACH setting IN ARRAY ARRAY[
    $s$default_transaction_isolation = 'read committed'$s$,
    $s$statement_timeout = '5s'$s$,
    $s$lock_timeout = '2s'$s$,
    $s$idle_in_transaction_session_timeout = '10s'$s$
  ] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s', current_user, current_database(), setting);
  END LOOP;
END $$;

-- A trusted extension: the owner of a database may create it without being a superuser.
CREATE EXTENSION unaccent WITH SCHEMA public;

-- Case and accents gone: "Björk" and "BJORK" fold to one text. Decomposing first catches accents that the extension's
-- table does not list; the collation makes the answer the same on every server, whatever its locale. Declared immutable,
-- as generated columns ask: the extension's dictionary is named, so only a change of its rules could change an answer.
CREATE FUNCTION fold(words text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN lower(
  public.unaccent('public.unaccent'::regdictionary, regexp_replace(normalize(words, NFKD), U&'[\0300-\036F]', '', 'g'))
  COLLATE pg_c_utf8
);

-- The folded words of a text: letters and digits, everything else parts them.
CREATE FUNCTION fold_words(words text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN array_remove(regexp_split_to_array(public.fold(words) COLLATE pg_c_utf8, '[^[:alnum:]]+'), '');

-- What a visitor typed, as a query in which each word must begin a word of the event. NULL when there is no word.
CREATE FUNCTION search_query(words text) RETURNS tsquery LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
  SELECT string_agg(quote_literal(word) || ':*', ' & ')::tsquery FROM unnest(public.fold_words(words)) AS word
);

CREATE TABLE venue (
  venue_id bigint GENERATED ALWAYS AS IDENTITY,
  name text NOT NULL,
  city text NOT NULL,
  country_code text NOT NULL,
  time_zone text NOT NULL,
  create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
  name_folded text NOT NULL GENERATED ALWAYS AS (fold(name)) STORED,
  city_folded text NOT NULL GENERATED ALWAYS AS (fold(city)) STORED,
  CONSTRAINT venue_is_known_by_its_id PRIMARY KEY (venue_id),
  CONSTRAINT venue_has_a_name_of_its_own UNIQUE (name_folded),
  CONSTRAINT venue_country_has_two_letters CHECK (country_code ~ '^[A-Z]{2}$')
);

-- Every seat id there will ever be, in the 32 bits that the contract gives it. Numbers are never given out twice, not
-- even those of an import that failed.
CREATE SEQUENCE seat_id AS integer;

-- The first of `seats` ids in a row. The lock keeps another import from drawing between the two calls.
CREATE FUNCTION take_seat_ids(seats integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  first_seat_id integer;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('seat_id', 0));
  first_seat_id := nextval('seat_id');
  PERFORM setval('seat_id', first_seat_id::bigint + seats - 1);
  RETURN first_seat_id;
END $$;

-- One version of a venue's seat plan. Events point at it, so it never changes.
CREATE TABLE plan (
  plan_id bigint GENERATED ALWAYS AS IDENTITY,
  venue_id bigint NOT NULL,
  version integer NOT NULL,
  digest bytea NOT NULL,
  width integer NOT NULL,
  height integer NOT NULL,
  focal_x integer NOT NULL,
  focal_y integer NOT NULL,
  categories text[] NOT NULL,
  colors text[] NOT NULL,
  seat_ids int4range NOT NULL,
  create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT plan_is_known_by_its_id PRIMARY KEY (plan_id),
  CONSTRAINT plan_is_of_a_venue FOREIGN KEY (venue_id) REFERENCES venue,
  CONSTRAINT plan_version_is_used_once UNIQUE (venue_id, version),
  CONSTRAINT plan_is_kept_once UNIQUE (venue_id, digest),
  CONSTRAINT plan_category_has_a_color CHECK (cardinality(categories) = cardinality(colors)),
  CONSTRAINT plan_has_seats CHECK (NOT isempty(seat_ids)),
  CONSTRAINT plan_shares_no_seat_id EXCLUDE USING gist (seat_ids WITH &&)
);

-- A row of seats, side by side, as arrays of one length: a plan of 18,000 seats is some 800 of these. Seat ids count up
-- from first_seat_id; categories are positions in plan.categories, from 1.
CREATE TABLE plan_row (
  plan_id bigint NOT NULL,
  ordinal integer NOT NULL,
  section text NOT NULL,
  row_name text NOT NULL,
  first_seat_id integer NOT NULL,
  numbers text[] NOT NULL,
  xs integer[] NOT NULL,
  ys integer[] NOT NULL,
  categories smallint[] NOT NULL,
  accessible boolean[] NOT NULL,
  CONSTRAINT plan_row_is_known_by_its_order PRIMARY KEY (plan_id, ordinal),
  CONSTRAINT plan_row_is_of_a_plan FOREIGN KEY (plan_id) REFERENCES plan,
  CONSTRAINT plan_row_describes_each_seat CHECK (
    cardinality(numbers) > 0 AND cardinality(xs) = cardinality(numbers) AND cardinality(ys) = cardinality(numbers)
    AND cardinality(categories) = cardinality(numbers) AND cardinality(accessible) = cardinality(numbers)
  )
);

-- Tickets name the seats of a plan: a change would move people who have paid.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a plan is never changed; import a new version' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER plan_never_changes BEFORE UPDATE ON plan FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER plan_row_never_changes BEFORE UPDATE ON plan_row FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- One performance. The shard is written with the event and is part of its public id, so it can never be another.
CREATE TABLE event (
  event_id bigint NOT NULL,
  shard text NOT NULL,
  request_id text NOT NULL,
  version integer NOT NULL DEFAULT 1,
  name text NOT NULL,
  performer text NOT NULL,
  description text NOT NULL,
  plan_id bigint NOT NULL,
  start_time timestamptz NOT NULL,
  sale_start_time timestamptz NOT NULL,
  sale_end_time timestamptz NOT NULL,
  currency_code text NOT NULL,
  tickets_per_account integer NOT NULL,
  hold_seconds integer NOT NULL,
  line boolean NOT NULL,
  line_capacity integer NOT NULL,
  search tsvector NOT NULL,
  create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
  published_time timestamptz,
  CONSTRAINT event_is_known_by_its_id PRIMARY KEY (event_id),
  CONSTRAINT event_is_made_once UNIQUE (request_id),
  CONSTRAINT event_has_a_plan FOREIGN KEY (plan_id) REFERENCES plan,
  CONSTRAINT event_number_is_positive CHECK (event_id > 0),
  CONSTRAINT event_sale_ends_after_it_starts CHECK (sale_start_time < sale_end_time),
  CONSTRAINT event_currency_has_three_letters CHECK (currency_code ~ '^[A-Z]{3}$')
);

-- Pages of what is shown, soonest first, and the words in it.
CREATE INDEX event_soonest_first ON event (start_time, event_id) WHERE published_time IS NOT NULL;
CREATE INDEX event_words ON event USING gin (search) WHERE published_time IS NOT NULL;
CREATE INDEX event_shards ON event (shard);

-- What the seats of one of the plan's categories cost at an event.
CREATE TABLE tier (
  event_id bigint NOT NULL,
  tier smallint NOT NULL,
  name text NOT NULL,
  price_minor bigint NOT NULL,
  fee_minor bigint NOT NULL,
  color text NOT NULL,
  CONSTRAINT tier_is_one_of_its_event PRIMARY KEY (event_id, tier),
  CONSTRAINT tier_is_of_an_event FOREIGN KEY (event_id) REFERENCES event,
  CONSTRAINT tier_costs_nothing_or_more CHECK (price_minor >= 0 AND fee_minor >= 0)
);

-- An event with all that is shown of it; tiers dearest first.
CREATE VIEW whole_event AS
SELECT
  e.event_id, e.shard, e.version, e.name, e.performer, e.description, e.start_time, e.sale_start_time, e.sale_end_time,
  e.currency_code, e.tickets_per_account, e.hold_seconds, e.line, e.line_capacity, e.published_time, e.request_id,
  e.search, p.plan_id, p.version AS plan_version, upper(p.seat_ids) - lower(p.seat_ids) AS seat_count,
  v.venue_id, v.name AS venue_name, v.city, v.country_code, v.time_zone, v.city_folded,
  t.tiers, t.tier_names, t.prices_minor, t.fees_minor, t.colors
FROM event e
JOIN plan p USING (plan_id)
JOIN venue v USING (venue_id)
CROSS JOIN LATERAL (
  SELECT
    array_agg(tier ORDER BY price_minor DESC, tier) AS tiers,
    array_agg(name ORDER BY price_minor DESC, tier) AS tier_names,
    array_agg(price_minor ORDER BY price_minor DESC, tier) AS prices_minor,
    array_agg(fee_minor ORDER BY price_minor DESC, tier) AS fees_minor,
    array_agg(color ORDER BY price_minor DESC, tier) AS colors
  FROM tier WHERE tier.event_id = e.event_id
) t;
