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
  -- Until onsale_end_time holds are shorter: seats that come back in the first minutes are wanted most. NULL: never.
  onsale_hold_duration interval   NOT NULL DEFAULT interval '2 minutes',
  onsale_end_time     timestamptz,
  -- Whether buyers may pick seats.
  selection_mode      text        NOT NULL DEFAULT 'ANY',
  -- How often an account may hold, and let go, in ten minutes. NULL: as often as it likes.
  holds_per_account   int,
  -- Whether a cancelled order's seats go back on sale; else they are blocked.
  resale              boolean     NOT NULL DEFAULT true,
  -- Until when a buyer may cancel. NULL: never.
  cancel_end_time     timestamptz,
  -- Where people look, in plan units. NULL: the plan's order says which seats are better.
  focal_x             int,
  focal_y             int,
  currency_code       text        NOT NULL,
  CONSTRAINT sale_ends_after_it_starts CHECK (sale_start_time < sale_end_time),
  CONSTRAINT an_account_may_buy_a_ticket CHECK (tickets_per_account > 0),
  CONSTRAINT a_hold_lasts CHECK (hold_duration > interval '0' AND onsale_hold_duration > interval '0'),
  CONSTRAINT selection_mode_is_known CHECK (selection_mode IN ('ANY', 'BEST_AVAILABLE')),
  CONSTRAINT an_account_may_hold_once CHECK (holds_per_account > 0),
  CONSTRAINT a_focal_point_has_both_coordinates CHECK ((focal_x IS NULL) = (focal_y IS NULL))
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
-- A hold is of seats, or of units of a general-admission area.
CREATE TABLE hold (
  hold_id         uuid        PRIMARY KEY,
  event_id        bigint      NOT NULL,
  account         text        NOT NULL,
  idempotency_key text        NOT NULL,
  fingerprint     bytea       NOT NULL,
  -- Seats or units: what caps count.
  ticket_count    int         NOT NULL,
  -- Ascending; none for units of an area.
  seats           int[]       NOT NULL,
  -- As of the moment of the hold: of each seat, in the same order, or the one of every unit.
  prices          bigint[]    NOT NULL,
  fees            bigint[]    NOT NULL,
  currency_code   text        NOT NULL,
  -- Units: of which area, from which of its counters, and how many from each.
  area_id         int,
  counters        int[],
  amounts         int[],
  state           text        NOT NULL DEFAULT 'ACTIVE',
  create_time     timestamptz NOT NULL,
  expires_at      timestamptz NOT NULL,
  end_time        timestamptz,
  -- Nothing of it is left on a seat row, or never will be again.
  swept           boolean     NOT NULL DEFAULT false,
  CONSTRAINT hold_state_is_known CHECK (state IN ('ACTIVE', 'CONFIRMED', 'RELEASED', 'EXPIRED')),
  CONSTRAINT an_active_hold_and_no_other_has_no_end CHECK ((state = 'ACTIVE') = (end_time IS NULL)),
  CONSTRAINT a_hold_is_of_1_to_50_tickets CHECK (ticket_count BETWEEN 1 AND 50),
  CONSTRAINT a_hold_is_of_seats_or_of_an_area
    CHECK (cardinality(seats) = CASE WHEN area_id IS NULL THEN ticket_count ELSE 0 END),
  CONSTRAINT a_hold_prices_its_tickets
    CHECK (cardinality(prices) = CASE WHEN area_id IS NULL THEN ticket_count ELSE 1 END
           AND cardinality(fees) = cardinality(prices)),
  CONSTRAINT a_hold_of_an_area_says_where_from
    CHECK ((area_id IS NULL) = (counters IS NULL) AND (area_id IS NULL) = (amounts IS NULL)
           AND cardinality(counters) = cardinality(amounts)),
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
  -- Grows with every change of state: readers of `booking.orders` tell an old message by it.
  version         int         NOT NULL DEFAULT 1,
  ticket_count    int         NOT NULL,
  currency_code   text        NOT NULL,
  total_amount    bigint      NOT NULL,
  fee_amount      bigint      NOT NULL,
  state           text        NOT NULL DEFAULT 'PENDING_PAYMENT',
  payment_state   text        NOT NULL DEFAULT 'PENDING',
  failure_reason  text,
  -- Units of an area instead of seats, and what one of them costs. Counters and amounts: from which of the area's
  -- counters they are, and how many of each; NULL once they were given back.
  area_id         int,
  unit_price      bigint,
  unit_fee        bigint,
  counters        int[],
  amounts         int[],
  create_time     timestamptz NOT NULL,
  confirm_time    timestamptz,
  cancel_time     timestamptz,
  -- When its tickets were issued.
  ticket_time     timestamptz,
  CONSTRAINT an_order_per_hold UNIQUE (hold_id),
  CONSTRAINT order_state_is_known CHECK (state IN ('PENDING_PAYMENT', 'CONFIRMED', 'FAILED', 'CANCELLED')),
  CONSTRAINT payment_state_is_known CHECK (payment_state IN ('PENDING', 'UNKNOWN', 'SUCCEEDED', 'FAILED')),
  CONSTRAINT a_confirmed_order_is_paid CHECK (state NOT IN ('CONFIRMED', 'CANCELLED') OR payment_state = 'SUCCEEDED'),
  CONSTRAINT a_failed_order_and_no_other_says_why CHECK ((state = 'FAILED') = (failure_reason IS NOT NULL)),
  CONSTRAINT a_confirmed_order_says_when CHECK ((state IN ('CONFIRMED', 'CANCELLED')) = (confirm_time IS NOT NULL)),
  CONSTRAINT a_cancelled_order_and_no_other_says_when CHECK ((state = 'CANCELLED') = (cancel_time IS NOT NULL)),
  CONSTRAINT an_order_of_units_prices_them
    CHECK ((area_id IS NULL) = (unit_price IS NULL) AND (area_id IS NULL) = (unit_fee IS NULL)),
  CONSTRAINT a_live_order_of_units_and_none_of_seats_has_counters
    CHECK (CASE WHEN area_id IS NULL THEN counters IS NULL
                WHEN state IN ('PENDING_PAYMENT', 'CONFIRMED') THEN counters IS NOT NULL
                WHEN state = 'FAILED' THEN counters IS NULL ELSE true END
           AND cardinality(counters) IS NOT DISTINCT FROM cardinality(amounts)),
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

-- Money that we have and may not keep: of an order that was cancelled, or that came too late. At most once per order.
CREATE TABLE refund_due (
  order_id    uuid        PRIMARY KEY REFERENCES orders,
  amount      bigint      NOT NULL,
  currency    text        NOT NULL,
  create_time timestamptz NOT NULL,
  CONSTRAINT a_refund_is_of_something CHECK (amount >= 0)
);

-- An entitlement to a seat, or to the sequence-th unit of an order; at most one for each.
CREATE TABLE ticket (
  ticket_id   uuid        PRIMARY KEY,
  order_id    uuid        NOT NULL REFERENCES orders,
  seat_id     int,
  sequence    int,
  event_id    bigint      NOT NULL,
  state       text        NOT NULL DEFAULT 'VALID',
  create_time timestamptz NOT NULL,
  CONSTRAINT a_ticket_per_seat_of_an_order UNIQUE (order_id, seat_id),
  CONSTRAINT a_ticket_per_unit_of_an_order UNIQUE (order_id, sequence),
  CONSTRAINT a_ticket_is_of_a_seat_or_a_unit CHECK ((seat_id IS NULL) <> (sequence IS NULL)),
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
