-- Orders. The order of locks is that of holds: account, seats or counters ascending, holds ascending, order, tickets,
-- outbox. An order's state changes under its account's lock, so it is known before any seat or counter is locked.

-- Tells whoever may be late of an order's new state, by the stream `booking.orders`. No mail address, no payment token.
CREATE OR REPLACE FUNCTION publish_order(p_order uuid) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox (sink, aggregate_id, kind, payload)
  SELECT 'booking.orders', o.order_id::text, lower(o.state),
         jsonb_build_object('order_id', o.order_id::text, 'event_id', o.event_id::text, 'version', o.version,
                            'state', o.state, 'payment_state', o.payment_state, 'account', o.account,
                            'ticket_count', o.ticket_count, 'area_id', o.area_id, 'currency_code', o.currency_code,
                            'total_amount', o.total_amount, 'fee_amount', o.fee_amount,
                            'failure_reason', o.failure_reason, 'time', clock_timestamp())
    FROM orders o WHERE o.order_id = p_order
$$;

-- Writes orders of holds that are confirmed, with what they bought, and asks for their charges, if they cost anything.
CREATE OR REPLACE FUNCTION insert_orders(
  p_order uuid[], p_hold uuid[], p_key text[], p_fingerprint bytea[], p_email text[], p_payment_token text[])
RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  INSERT INTO orders (order_id, event_id, account, email, hold_id, idempotency_key, fingerprint, ticket_count,
                      currency_code, total_amount, fee_amount, area_id, unit_price, unit_fee, counters, amounts, create_time)
  SELECT q.order_id, h.event_id, h.account, q.email, h.hold_id, q.key, q.fingerprint, h.ticket_count, h.currency_code,
         p.total * p.units, p.fees * p.units, h.area_id, CASE WHEN h.area_id IS NOT NULL THEN h.prices[1] END,
         CASE WHEN h.area_id IS NOT NULL THEN h.fees[1] END, h.counters, h.amounts, clock_timestamp()
    FROM unnest(p_order, p_hold, p_key, p_fingerprint, p_email) q(order_id, hold_id, key, fingerprint, email)
    JOIN hold h ON h.hold_id = q.hold_id
   CROSS JOIN LATERAL (
     SELECT sum(t.price + t.fee)::bigint AS total, sum(t.fee)::bigint AS fees,
            CASE WHEN h.area_id IS NULL THEN 1 ELSE h.ticket_count END AS units
       FROM unnest(h.prices, h.fees) t(price, fee)) p;
  INSERT INTO order_seat (order_id, seat_id, event_id, price, fee)
  SELECT q.order_id, t.seat_id, h.event_id, t.price, t.fee
    FROM unnest(p_order, p_hold) q(order_id, hold_id)
    JOIN hold h ON h.hold_id = q.hold_id AND h.area_id IS NULL
   CROSS JOIN LATERAL unnest(h.seats, h.prices, h.fees) t(seat_id, price, fee);
  INSERT INTO outbox (sink, aggregate_id, kind, payload)
  SELECT 'payments', o.order_id::text, 'charge',
         jsonb_build_object('currency_code', o.currency_code, 'amount_minor', o.total_amount,
                            'payment_token', q.payment_token)
    FROM unnest(p_order, p_payment_token) q(order_id, payment_token)
    JOIN orders o ON o.order_id = q.order_id AND o.total_amount > 0;
END $$;

-- Turns a hold into an order and asks for its charge, in one transaction.
--   CREATED, REPLAY, EXISTS   order_id
--   CONFIRMED                 order_id: created, and paid already, for it costs nothing
--   REUSED                    the key belongs to an order of another hold or payment token
--   EXPIRED                   the hold has ended, and no order came of it
--   NO_HOLD                   none of the account's
CREATE OR REPLACE FUNCTION create_order(
  p_account text, p_hold uuid, p_key text, p_fingerprint bytea, p_email text, p_payment_token text, p_grace interval,
  OUT verdict text, OUT order_id uuid, OUT event_id bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  h hold;
  v_same boolean;
  v_seats int;
BEGIN
  SELECT * INTO h FROM hold WHERE hold_id = p_hold AND account = p_account;
  IF NOT FOUND THEN verdict := 'NO_HOLD'; RETURN; END IF;
  event_id := h.event_id;

  -- The account's lock covers its keys; and without it a hold just past its grace would be counted nowhere while it
  -- becomes an order, so that the account could go over its cap.
  PERFORM pg_advisory_xact_lock(account_lock(h.event_id, p_account));
  SELECT o.order_id, o.fingerprint = p_fingerprint INTO order_id, v_same FROM orders o
   WHERE o.event_id = h.event_id AND o.account = p_account AND o.idempotency_key = p_key;
  IF FOUND THEN verdict := CASE WHEN v_same THEN 'REPLAY' ELSE 'REUSED' END;
  ELSE
    SELECT o.order_id INTO order_id FROM orders o WHERE o.hold_id = p_hold;
    IF FOUND THEN verdict := 'EXISTS'; END IF;
  END IF;
  IF verdict IS NOT NULL THEN
    PERFORM pg_logical_emit_message(true, 'replay', '');  -- a commit to wait for: what is answered is replicated too
    RETURN;
  END IF;

  -- The hold's id on each seat is the fence: a seat that another has taken over is not this hold's any more, and with
  -- it the grace is safe. Units have no owner's name on them: of an area's hold its own record is the fence, for whoever
  -- gives its units to another ends it. So no counter is locked here. (A takeover ends the record of a hold of seats,
  -- too, so the record would decide alone. The seats are locked because it locks them before the record: without that it
  -- and we would wait for each other.)
  SELECT count(*) INTO v_seats FROM (
    SELECT z.* FROM seat z WHERE z.event_id = h.event_id AND z.seat_id = ANY (h.seats)
     ORDER BY z.seat_id FOR NO KEY UPDATE) s
   WHERE s.event_id = h.event_id AND s.state = 'HELD' AND s.hold_id = p_hold;
  verdict := 'EXPIRED';
  IF v_seats < cardinality(h.seats) THEN RETURN; END IF;
  UPDATE hold SET state = 'CONFIRMED', end_time = clock_timestamp(), swept = true
   WHERE hold_id = p_hold AND state = 'ACTIVE' AND expires_at > clock_timestamp() - p_grace;
  IF NOT FOUND THEN RETURN; END IF;

  verdict := 'CREATED';
  order_id := uuidv7();
  UPDATE seat s SET state = 'PENDING_PAYMENT', hold_id = NULL, hold_expires_at = NULL, order_id = create_order.order_id
   WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats) AND s.state = 'HELD' AND s.hold_id = p_hold;
  PERFORM insert_orders(ARRAY[create_order.order_id], ARRAY[p_hold], ARRAY[p_key], ARRAY[p_fingerprint],
                        ARRAY[p_email], ARRAY[p_payment_token]);
  IF NOT 0 < ANY (h.prices || h.fees) THEN
    -- What costs nothing is paid as it is ordered. All that an outcome locks is locked by us already.
    PERFORM record_payment_outcome(create_order.order_id, 'SUCCEEDED', NULL, interval '0');
    verdict := 'CONFIRMED';
  END IF;
END $$;

-- create_order for a batch of 1 to 64 requests, of which no two share an account or a hold, in one call that waits for
-- nobody. It does what is plain: of request r the hold is live and costs something, no order of it or of its key is
-- known, and nothing that it needs is locked. Then order_id[r] is set; else nothing of r is written, and create_order is
-- to decide.
-- Indexes by bitmap only: that way they cannot be read from end to end, as a plan for small tables would join.
CREATE OR REPLACE FUNCTION create_orders(
  p_account text[], p_hold uuid[], p_key text[], p_fingerprint bytea[], p_email text[], p_payment_token text[],
  p_grace interval, OUT order_id uuid[], OUT event_id bigint[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
#variable_conflict use_column
DECLARE
  n int := cardinality(p_account);
  i int;
  r record;
  v_seats int := 0;
  v_written int;
  v_standing uuid[] := array_fill(NULL::uuid, ARRAY[n]);  -- by request: its hold, while it is plain
  v_mine uuid[];
  v_live int[] := '{}';                                   -- requests that become orders
BEGIN
  order_id := array_fill(NULL::uuid, ARRAY[n]);
  event_id := array_fill(NULL::bigint, ARRAY[n]);
  FOR r IN
    SELECT q.place::int AS place, h.event_id FROM unnest(p_hold, p_account) WITH ORDINALITY q(hold_id, account, place)
      JOIN hold h ON h.hold_id = q.hold_id AND h.account = q.account AND 0 < ANY (h.prices || h.fees)
  LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(account_lock(r.event_id, p_account[r.place]));
    event_id[r.place] := r.event_id;
    v_standing[r.place] := p_hold[r.place];
  END LOOP;

  FOR r IN
    SELECT q.place::int AS place FROM unnest(v_standing, event_id, p_account, p_key)
           WITH ORDINALITY q(hold_id, event_id, account, key, place)
     -- Not two EXISTS with OR between: the planner would hash every order there is for each call.
     CROSS JOIN LATERAL (
       SELECT FROM orders o WHERE o.hold_id = q.hold_id
        UNION ALL
       SELECT FROM orders o
        WHERE o.event_id = q.event_id AND o.account = q.account AND o.idempotency_key = q.key) known
  LOOP
    v_standing[r.place] := NULL;
  END LOOP;

  -- Seats, then holds. A hold is ours if all its seats came back locked and bear its id; an area's hold has none.
  SELECT array_agg(h.hold_id) INTO v_mine
    FROM hold h
    LEFT JOIN (
      SELECT l.wanted, count(*) AS seats FROM (
        SELECT h.hold_id AS wanted, s.state, s.hold_id
          FROM unnest(v_standing) q(hold_id)
          JOIN hold h ON h.hold_id = q.hold_id
         CROSS JOIN LATERAL unnest(h.seats) t(seat_id)
          JOIN seat s ON s.event_id = h.event_id AND s.seat_id = t.seat_id
         ORDER BY s.event_id, s.seat_id FOR NO KEY UPDATE OF s SKIP LOCKED) l
       WHERE l.state = 'HELD' AND l.hold_id = l.wanted GROUP BY l.wanted) own ON own.wanted = h.hold_id
   WHERE h.hold_id = ANY (v_standing) AND cardinality(h.seats) = coalesce(own.seats, 0);
  SELECT array_agg(l.hold_id), coalesce(sum(cardinality(l.seats)), 0) INTO v_mine, v_seats FROM (
    SELECT h.hold_id, h.seats FROM hold h
     WHERE h.hold_id = ANY (v_mine) AND h.state = 'ACTIVE' AND h.expires_at > clock_timestamp() - p_grace
     ORDER BY h.hold_id FOR NO KEY UPDATE SKIP LOCKED) l;
  IF v_mine IS NULL THEN RETURN; END IF;
  UPDATE hold h SET state = 'CONFIRMED', end_time = clock_timestamp(), swept = true WHERE h.hold_id = ANY (v_mine);

  FOR i IN 1..n LOOP
    CONTINUE WHEN v_standing[i] IS NULL OR v_standing[i] <> ALL (v_mine);
    order_id[i] := uuidv7();
    v_live := v_live || i;
  END LOOP;
  UPDATE seat s SET state = 'PENDING_PAYMENT', hold_id = NULL, hold_expires_at = NULL, order_id = u.order_id
    FROM (SELECT q.order_id, h.event_id, h.hold_id, t.seat_id
            FROM unnest(create_orders.order_id, v_standing) q(order_id, hold_id)
            JOIN hold h ON h.hold_id = q.hold_id
           CROSS JOIN LATERAL unnest(h.seats) t(seat_id)
           WHERE q.order_id IS NOT NULL) u
   WHERE s.event_id = u.event_id AND s.seat_id = u.seat_id AND s.state = 'HELD' AND s.hold_id = u.hold_id;
  GET DIAGNOSTICS v_written = ROW_COUNT;
  IF v_written <> v_seats THEN RAISE EXCEPTION 'create_orders wrote % of % seats', v_written, v_seats; END IF;
  PERFORM insert_orders(
    ARRAY(SELECT create_orders.order_id[l] FROM unnest(v_live) l), ARRAY(SELECT p_hold[l] FROM unnest(v_live) l),
    ARRAY(SELECT p_key[l] FROM unnest(v_live) l), ARRAY(SELECT p_fingerprint[l] FROM unnest(v_live) l),
    ARRAY(SELECT p_email[l] FROM unnest(v_live) l), ARRAY(SELECT p_payment_token[l] FROM unnest(v_live) l));
END $$;

-- Moves all of an order's seats from one state to another, fenced by the order's id; all, or an error. Called with the
-- seats locked.
CREATE OR REPLACE FUNCTION move_order_seats(p_event bigint, p_order uuid, p_seats int[], p_from text, p_to text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_written int;
BEGIN
  UPDATE seat s SET state = p_to, order_id = CASE WHEN p_to IN ('PENDING_PAYMENT', 'SOLD') THEN p_order END
   WHERE s.event_id = p_event AND s.seat_id = ANY (p_seats) AND s.state = p_from
     AND s.order_id IS NOT DISTINCT FROM CASE WHEN p_from <> 'AVAILABLE' THEN p_order END;
  GET DIAGNOSTICS v_written = ROW_COUNT;
  IF v_written <> cardinality(p_seats) THEN
    RAISE EXCEPTION 'order % has % of its % seats', p_order, v_written, cardinality(p_seats);
  END IF;
END $$;

-- Locks what an order has or had: its seats, whose numbers it returns ('{}': none). Of an area only what p_units says:
-- OWN, the counters that its units came from, to give them back; ALL, to take units again; NONE.
CREATE OR REPLACE FUNCTION lock_order_things(o orders, p_units text) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  v_seats int[];
BEGIN
  IF o.area_id IS NULL THEN
    SELECT array_agg(seat_id) INTO v_seats FROM order_seat WHERE order_id = o.order_id;
    PERFORM FROM seat s WHERE s.event_id = o.event_id AND s.seat_id = ANY (v_seats) ORDER BY s.seat_id FOR NO KEY UPDATE;
  ELSIF p_units = 'ALL' THEN
    PERFORM lock_area(o.event_id, o.area_id);
  ELSIF p_units = 'OWN' THEN
    PERFORM FROM area_counter c WHERE c.event_id = o.event_id AND c.area_id = o.area_id AND c.counter = ANY (o.counters)
      ORDER BY c.counter FOR NO KEY UPDATE;
  END IF;
  RETURN coalesce(v_seats, '{}');
END $$;

-- Compensates an order: what it had can be bought again. Called with seats or counters, and the order, locked.
CREATE OR REPLACE FUNCTION fail_order(o orders, p_seats int[], p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE orders SET state = 'FAILED', payment_state = 'FAILED', failure_reason = p_reason, version = version + 1,
                    counters = NULL, amounts = NULL
   WHERE order_id = o.order_id AND state = 'PENDING_PAYMENT';
  IF NOT FOUND THEN RETURN; END IF;
  PERFORM move_order_seats(o.event_id, o.order_id, p_seats, 'PENDING_PAYMENT', 'AVAILABLE');
  UPDATE order_seat SET live = false WHERE order_id = o.order_id;
  IF o.area_id IS NOT NULL THEN PERFORM give_units_back(o.event_id, o.area_id, o.counters, o.amounts); END IF;
  PERFORM publish_order(o.order_id);
END $$;

-- Judges, once, money that came after its order had failed: the same seats again, or as many units, if all are free, on
-- sale and within the account's cap; else the money is owed back. Called with account, seats or counters, and order locked.
CREATE OR REPLACE FUNCTION retake_order(o orders, p_seats int[], p_grace interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_won boolean;
  v_counters int[];
  v_amounts int[];
BEGIN
  IF EXISTS (SELECT FROM late_payment WHERE order_id = o.order_id) THEN RETURN false; END IF;
  SELECT CASE WHEN o.area_id IS NULL
              THEN (SELECT count(*) FROM seat s WHERE s.event_id = o.event_id AND s.seat_id = ANY (p_seats)
                       AND s.state = 'AVAILABLE') = o.ticket_count
              ELSE (SELECT coalesce(sum(c.available), 0) FROM area_counter c
                     WHERE c.event_id = o.event_id AND c.area_id = o.area_id) >= o.ticket_count END
         AND e.sale_end_time > clock_timestamp()
         AND tickets_in_use(o.event_id, o.account, p_grace) + o.ticket_count <= e.tickets_per_account
    INTO v_won FROM event e WHERE e.event_id = o.event_id;
  INSERT INTO late_payment (order_id, verdict, judge_time)
  VALUES (o.order_id, CASE WHEN v_won THEN 'RETAKEN' ELSE 'REFUND' END, clock_timestamp());
  IF v_won THEN
    IF o.area_id IS NOT NULL THEN
      SELECT t.counters, t.amounts INTO v_counters, v_amounts FROM take_units(o.event_id, o.area_id, o.ticket_count, 0) t;
    END IF;
    PERFORM move_order_seats(o.event_id, o.order_id, p_seats, 'AVAILABLE', 'SOLD');
    UPDATE order_seat SET live = true WHERE order_id = o.order_id;
    UPDATE orders SET state = 'CONFIRMED', payment_state = 'SUCCEEDED', failure_reason = NULL, version = version + 1,
                      counters = v_counters, amounts = v_amounts, confirm_time = clock_timestamp()
     WHERE order_id = o.order_id AND state = 'FAILED';
    PERFORM publish_order(o.order_id);
  ELSE
    UPDATE orders SET payment_state = 'SUCCEEDED' WHERE order_id = o.order_id AND state = 'FAILED';
    INSERT INTO refund_due (order_id, amount, currency, create_time)
    VALUES (o.order_id, o.total_amount, o.currency_code, clock_timestamp());
  END IF;
  RETURN v_won;
END $$;

-- What became of an order's charge, told at least once: SUCCEEDED, FAILED (p_reason says why) or UNKNOWN, which decides
-- nothing. RECORDED, now or before; RETAKEN, the same for late money; CONFLICT when another outcome stands; NO_ORDER.
-- order_state is the order's state after it, event_id and account are the order's.
CREATE OR REPLACE FUNCTION record_payment_outcome(p_order uuid, p_outcome text, p_reason text, p_grace interval,
  OUT verdict text, OUT order_state text, OUT event_id bigint, OUT account text)
LANGUAGE plpgsql AS $$
DECLARE
  o orders;
  v_seats int[];
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF NOT FOUND THEN verdict := 'NO_ORDER'; RETURN; END IF;
  PERFORM pg_advisory_xact_lock(account_lock(o.event_id, o.account));
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  v_seats := lock_order_things(o, CASE WHEN p_outcome = 'FAILED' THEN 'OWN' WHEN o.state = 'FAILED' THEN 'ALL' ELSE 'NONE' END);
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR NO KEY UPDATE;  -- the row as locked decides

  verdict := 'RECORDED';
  IF o.state = 'PENDING_PAYMENT' AND p_outcome = 'SUCCEEDED' THEN
    PERFORM move_order_seats(o.event_id, p_order, v_seats, 'PENDING_PAYMENT', 'SOLD');
    UPDATE orders SET state = 'CONFIRMED', payment_state = 'SUCCEEDED', version = version + 1, confirm_time = clock_timestamp()
     WHERE order_id = p_order AND state = 'PENDING_PAYMENT';
    PERFORM publish_order(p_order);
  ELSIF o.state = 'PENDING_PAYMENT' AND p_outcome = 'FAILED' THEN
    PERFORM fail_order(o, v_seats, p_reason);
  ELSIF o.state = 'PENDING_PAYMENT' THEN
    UPDATE orders SET payment_state = 'UNKNOWN' WHERE order_id = p_order AND state = 'PENDING_PAYMENT';
  ELSIF o.state = 'FAILED' AND p_outcome = 'SUCCEEDED' THEN
    verdict := CASE WHEN retake_order(o, v_seats, p_grace) THEN 'RETAKEN' ELSE 'CONFLICT' END;
  ELSIF o.state IN ('CONFIRMED', 'CANCELLED') AND p_outcome = 'FAILED' THEN
    verdict := 'CONFLICT';
  ELSE
    PERFORM pg_logical_emit_message(true, 'replay', '');  -- known already, or too late to matter; replicated all the same
  END IF;
  SELECT q.state, q.event_id, q.account INTO order_state, event_id, account FROM orders q WHERE q.order_id = p_order;
END $$;

-- Ends an account's confirmed order: its tickets open nothing any more, its seats or units go back on sale where the
-- event allows, and the money is owed back.
--   CANCELLED       now
--   REPLAY          before
--   NOT_CONFIRMED   it is in order_state
--   CLOSED          too late
--   USED            one of its tickets has opened the gate
--   NO_ORDER        none of the account's
CREATE OR REPLACE FUNCTION cancel_order(p_account text, p_order uuid, OUT verdict text, OUT order_state text)
LANGUAGE plpgsql AS $$
DECLARE
  o orders;
  e event;
  v_seats int[];
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order AND account = p_account;
  IF NOT FOUND THEN verdict := 'NO_ORDER'; RETURN; END IF;
  PERFORM pg_advisory_xact_lock(account_lock(o.event_id, o.account));
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  v_seats := lock_order_things(o, 'OWN');
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR NO KEY UPDATE;  -- the row as locked decides
  order_state := o.state;
  IF o.state = 'CANCELLED' THEN
    verdict := 'REPLAY';
    PERFORM pg_logical_emit_message(true, 'replay', '');
    RETURN;
  END IF;
  IF o.state <> 'CONFIRMED' THEN verdict := 'NOT_CONFIRMED'; RETURN; END IF;
  SELECT * INTO e FROM event WHERE event_id = o.event_id;
  IF e.cancel_end_time IS NULL OR clock_timestamp() >= e.cancel_end_time THEN verdict := 'CLOSED'; RETURN; END IF;
  -- A scan changes a ticket and nothing else: it is before us, and we see it, or it waits and finds the ticket revoked.
  PERFORM FROM ticket t WHERE t.order_id = p_order ORDER BY t.ticket_id FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM ticket t WHERE t.order_id = p_order AND t.state = 'USED') THEN verdict := 'USED'; RETURN; END IF;

  verdict := 'CANCELLED';
  order_state := 'CANCELLED';
  UPDATE orders SET state = 'CANCELLED', version = version + 1, cancel_time = clock_timestamp(),
                    counters = CASE WHEN NOT e.resale THEN o.counters END, amounts = CASE WHEN NOT e.resale THEN o.amounts END
   WHERE order_id = p_order AND state = 'CONFIRMED';
  UPDATE ticket SET state = 'REVOKED' WHERE order_id = p_order AND state = 'VALID';
  PERFORM move_order_seats(o.event_id, p_order, v_seats, 'SOLD', CASE WHEN e.resale THEN 'AVAILABLE' ELSE 'BLOCKED' END);
  UPDATE order_seat SET live = false WHERE order_id = p_order;
  IF o.area_id IS NOT NULL AND e.resale THEN PERFORM give_units_back(o.event_id, o.area_id, o.counters, o.amounts); END IF;
  INSERT INTO refund_due (order_id, amount, currency, create_time)
  VALUES (p_order, o.total_amount, o.currency_code, clock_timestamp());
  PERFORM publish_order(p_order);
END $$;
