-- One shard of booking: who owns each seat. A row per seat, and the row decides.

-- Every guard in this service is written for READ COMMITTED, and every wait is bounded. Set for the role in this
-- database, they hold through a pooler too and cost no round trip; the service checks them when it starts.
DO $$
DECLARE
  v_setting text;
BEGIN
  FOREACH v_setting IN ARRAY ARRAY[
    'default_transaction_isolation = ''read committed''',
    'statement_timeout = ''5s''',
    'lock_timeout = ''2s''',
    'idle_in_transaction_session_timeout = ''10s'''] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s', current_user, current_database(), v_setting);
  END LOOP;
END $$;

-- Which shard this database is. Ids carry the name, so a database that is connected under another name would give
-- away the wrong seats: the service compares when it connects.
CREATE TABLE shard (
  name      text    NOT NULL,
  only_row  boolean PRIMARY KEY DEFAULT true,
  CONSTRAINT a_database_is_one_shard CHECK (only_row),
  CONSTRAINT shard_name_fits_in_ids CHECK (name ~ '^[a-z][a-z0-9]{0,15}$')
);
INSERT INTO shard (name) VALUES (current_setting('rowlock.shard'));

-- An event's rules, as catalog handed them over. Booking never asks catalog on a hot path.
CREATE TABLE event (
  event_id            bigint      PRIMARY KEY,
  version             int         NOT NULL,
  -- Of everything that was handed over: the same version must mean the same content.
  fingerprint         bytea       NOT NULL,
  name                text        NOT NULL,
  sale_start_time     timestamptz NOT NULL,
  sale_end_time       timestamptz NOT NULL,
  tickets_per_account int         NOT NULL,
  hold_duration       interval    NOT NULL,
  currency_code       text        NOT NULL,
  CONSTRAINT sale_ends_after_it_starts CHECK (sale_start_time < sale_end_time),
  CONSTRAINT an_account_may_buy_a_ticket CHECK (tickets_per_account > 0),
  CONSTRAINT a_hold_lasts CHECK (hold_duration > interval '0')
);

CREATE TABLE tier (
  event_id bigint NOT NULL REFERENCES event,
  tier     int    NOT NULL,
  name     text   NOT NULL,
  price    bigint NOT NULL,
  fee      bigint NOT NULL,
  CONSTRAINT tier_pk PRIMARY KEY (event_id, tier),
  CONSTRAINT prices_are_not_negative CHECK (price >= 0 AND fee >= 0)
);

-- No index but the key, and room on the page: so every change of a seat is a HOT update. (An index on the expiry
-- would end that, and cost almost half as much log again.)
CREATE TABLE seat (
  event_id        bigint NOT NULL,
  seat_id         int    NOT NULL,
  tier            int    NOT NULL,
  section         text   NOT NULL,
  row_name        text   NOT NULL,
  number          text   NOT NULL,
  state           text   NOT NULL DEFAULT 'AVAILABLE',
  hold_id         uuid,
  hold_expires_at timestamptz,
  order_id        uuid,
  CONSTRAINT seat_pk PRIMARY KEY (event_id, seat_id),
  CONSTRAINT seat_state_is_known CHECK (state IN ('AVAILABLE', 'HELD', 'PENDING_PAYMENT', 'SOLD', 'BLOCKED')),
  CONSTRAINT a_held_seat_and_no_other_names_its_hold
    CHECK ((state = 'HELD') = (hold_id IS NOT NULL) AND (state = 'HELD') = (hold_expires_at IS NOT NULL)),
  CONSTRAINT an_ordered_seat_and_no_other_names_its_order
    CHECK ((state IN ('PENDING_PAYMENT', 'SOLD')) = (order_id IS NOT NULL))
) WITH (fillfactor = 70);

-- The hold, its seats, their prices and its idempotency record are one row: born together, and a refusal leaves none.
CREATE TABLE hold (
  hold_id         uuid        PRIMARY KEY,
  event_id        bigint      NOT NULL,
  account         text        NOT NULL,
  idempotency_key text        NOT NULL,
  fingerprint     bytea       NOT NULL,
  -- Ascending; prices and fees in the same order, as of the moment of the hold.
  seats           int[]       NOT NULL,
  prices          bigint[]    NOT NULL,
  fees            bigint[]    NOT NULL,
  currency_code   text        NOT NULL,
  state           text        NOT NULL DEFAULT 'ACTIVE',
  create_time     timestamptz NOT NULL,
  expires_at      timestamptz NOT NULL,
  end_time        timestamptz,
  -- Nothing of it is left on a seat row, or never will be again.
  swept           boolean     NOT NULL DEFAULT false,
  CONSTRAINT hold_state_is_known CHECK (state IN ('ACTIVE', 'CONFIRMED', 'RELEASED', 'EXPIRED')),
  CONSTRAINT an_active_hold_and_no_other_has_no_end CHECK ((state = 'ACTIVE') = (end_time IS NULL)),
  CONSTRAINT a_hold_has_1_to_50_seats CHECK (cardinality(seats) BETWEEN 1 AND 50),
  CONSTRAINT a_hold_prices_every_seat
    CHECK (cardinality(prices) = cardinality(seats) AND cardinality(fees) = cardinality(seats)),
  CONSTRAINT a_holds_account_and_key_are_short
    CHECK (length(account) BETWEEN 1 AND 255 AND length(idempotency_key) BETWEEN 1 AND 255)
) WITH (fillfactor = 80);
-- Replays; and by its prefix what an account has in use.
CREATE UNIQUE INDEX hold_is_unique_by_key ON hold (event_id, account, idempotency_key);
-- The sweeper's work. A record that was ended by a takeover stays in it: its other seats are still to be freed.
CREATE INDEX hold_unswept ON hold (expires_at) WHERE NOT swept;

-- The money truth. Kept for ever.
CREATE TABLE orders (
  order_id        uuid        PRIMARY KEY,
  event_id        bigint      NOT NULL,
  account         text        NOT NULL,
  email           text        NOT NULL,
  hold_id         uuid        NOT NULL,
  idempotency_key text        NOT NULL,
  fingerprint     bytea       NOT NULL,
  seat_count      int         NOT NULL,
  currency_code   text        NOT NULL,
  total_amount    bigint      NOT NULL,
  fee_amount      bigint      NOT NULL,
  state           text        NOT NULL DEFAULT 'PENDING_PAYMENT',
  payment_state   text        NOT NULL DEFAULT 'PENDING',
  failure_reason  text,
  create_time     timestamptz NOT NULL,
  confirm_time    timestamptz,
  -- When its tickets were issued.
  ticket_time     timestamptz,
  CONSTRAINT an_order_per_hold UNIQUE (hold_id),
  CONSTRAINT order_state_is_known CHECK (state IN ('PENDING_PAYMENT', 'CONFIRMED', 'FAILED', 'CANCELLED')),
  CONSTRAINT payment_state_is_known CHECK (payment_state IN ('PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED')),
  CONSTRAINT a_confirmed_order_is_paid CHECK (state NOT IN ('CONFIRMED', 'CANCELLED') OR payment_state = 'SUCCEEDED'),
  CONSTRAINT a_failed_order_and_no_other_says_why CHECK ((state = 'FAILED') = (failure_reason IS NOT NULL)),
  CONSTRAINT a_confirmed_order_says_when CHECK ((state IN ('CONFIRMED', 'CANCELLED')) = (confirm_time IS NOT NULL)),
  CONSTRAINT an_orders_account_and_key_are_short
    CHECK (length(account) BETWEEN 1 AND 255 AND length(idempotency_key) BETWEEN 1 AND 255)
) WITH (fillfactor = 80);
-- Replays; by its prefix what an account has in use, and an event's orders. No index on (event_id, order_id) beside it:
-- while the table is small the planner takes either, keeps that plan, and reads a whole event's orders for each hold.
CREATE UNIQUE INDEX order_is_unique_by_key ON orders (event_id, account, idempotency_key);
CREATE INDEX orders_of_an_account ON orders (account, order_id);
CREATE INDEX orders_without_tickets ON orders (confirm_time) WHERE state = 'CONFIRMED' AND ticket_time IS NULL;

-- What each order bought. `live` while the order is pending or confirmed: the unique index is a second lock on the
-- promise that a seat is sold at most once, and knows nothing of seat states.
CREATE TABLE order_seat (
  order_id uuid    NOT NULL REFERENCES orders,
  seat_id  int     NOT NULL,
  event_id bigint  NOT NULL,
  price    bigint  NOT NULL,
  fee      bigint  NOT NULL,
  live     boolean NOT NULL DEFAULT true,
  CONSTRAINT order_seat_pk PRIMARY KEY (order_id, seat_id)
);
CREATE UNIQUE INDEX a_seat_has_one_live_order ON order_seat (event_id, seat_id) WHERE live;

-- Money that came after its order had failed, judged once per order: RETAKEN, or owed back.
CREATE TABLE late_payment (
  order_id   uuid        PRIMARY KEY REFERENCES orders,
  verdict    text        NOT NULL,
  judge_time timestamptz NOT NULL,
  CONSTRAINT late_payment_verdict_is_known CHECK (verdict IN ('RETAKEN', 'REFUND'))
);

-- An entitlement to a seat; at most one for each seat of an order.
CREATE TABLE ticket (
  ticket_id   uuid        PRIMARY KEY,
  order_id    uuid        NOT NULL,
  seat_id     int         NOT NULL,
  event_id    bigint      NOT NULL,
  state       text        NOT NULL DEFAULT 'VALID',
  create_time timestamptz NOT NULL,
  CONSTRAINT a_ticket_per_seat_of_an_order UNIQUE (order_id, seat_id),
  CONSTRAINT a_ticket_is_of_an_order FOREIGN KEY (order_id, seat_id) REFERENCES order_seat (order_id, seat_id),
  CONSTRAINT ticket_state_is_known CHECK (state IN ('VALID', 'USED', 'REVOKED'))
);

-- The one thing that another service may read here: seatfeed follows these four columns in the log. Nothing of who
-- holds or bought a seat is in it. An update carries the key, so the default replica identity is enough.
CREATE PUBLICATION rowlock_seats FOR TABLE seat (event_id, seat_id, section, state);
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'seatfeed') THEN
    GRANT SELECT (event_id, seat_id, section, state) ON seat TO seatfeed;
  END IF;
END $$;
