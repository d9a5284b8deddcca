-- How a sale is run in full, areas without seats, and places for those who come with somebody.

-- Events written before have what an event gets of which nothing is said.
ALTER TABLE event
  ADD COLUMN onsale_hold_seconds integer NOT NULL DEFAULT 120,
  ADD COLUMN onsale_window_seconds integer NOT NULL DEFAULT 0,
  ADD COLUMN best_available_only boolean NOT NULL DEFAULT false,
  ADD COLUMN holds_per_account integer NOT NULL DEFAULT 20,
  ADD COLUMN no_resale boolean NOT NULL DEFAULT false,
  ADD COLUMN cancel_seconds integer NOT NULL DEFAULT 0,
  ADD CONSTRAINT event_cancelling_ends_after_the_sale_starts CHECK (
    cancel_seconds = 0 OR start_time - make_interval(secs => cancel_seconds) > sale_start_time
  );

-- An area without seats, at one event: so many may enter. Its price is a tier of its own.
CREATE TABLE area (
  event_id bigint NOT NULL,
  area_id integer NOT NULL,
  name text NOT NULL,
  capacity integer NOT NULL,
  tier smallint NOT NULL,
  CONSTRAINT area_is_one_of_its_event PRIMARY KEY (event_id, area_id),
  CONSTRAINT area_has_a_name_of_its_own UNIQUE (event_id, name),
  CONSTRAINT area_has_a_price FOREIGN KEY (event_id, tier) REFERENCES tier,
  CONSTRAINT area_has_a_unit_or_more CHECK (capacity > 0)
);

-- Filled by rewriting the column: an UPDATE would be refused, for a plan never changes.
ALTER TABLE plan_row ADD COLUMN companion boolean[];
ALTER TABLE plan_row ALTER COLUMN companion TYPE boolean[] USING array_fill(false, ARRAY[cardinality(numbers)]);
ALTER TABLE plan_row
  ALTER COLUMN companion SET NOT NULL,
  ADD CONSTRAINT plan_row_says_of_each_seat_whose_it_is CHECK (cardinality(companion) = cardinality(numbers));

-- An event with all that is shown of it; tiers dearest first, areas in the order they were given.
CREATE OR REPLACE VIEW whole_event AS
SELECT
  e.event_id, e.shard, e.version, e.name, e.performer, e.description, e.start_time, e.sale_start_time, e.sale_end_time,
  e.currency_code, e.tickets_per_account, e.hold_seconds, e.line, e.line_capacity, e.published_time, e.request_id,
  e.search, p.plan_id, p.version AS plan_version, upper(p.seat_ids) - lower(p.seat_ids) AS seat_count,
  v.venue_id, v.name AS venue_name, v.city, v.country_code, v.time_zone, v.city_folded,
  t.tiers, t.tier_names, t.prices_minor, t.fees_minor, t.colors,
  e.onsale_hold_seconds, e.onsale_window_seconds, e.best_available_only, e.holds_per_account, e.no_resale,
  e.cancel_seconds, a.area_ids, a.area_names, a.area_capacities, a.area_tiers
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
) t
CROSS JOIN LATERAL (
  SELECT
    coalesce(array_agg(area_id ORDER BY area_id), '{}') AS area_ids,
    coalesce(array_agg(name ORDER BY area_id), '{}') AS area_names,
    coalesce(array_agg(capacity ORDER BY area_id), '{}') AS area_capacities,
    coalesce(array_agg(tier ORDER BY area_id), '{}') AS area_tiers
  FROM area WHERE area.event_id = e.event_id
) a;
