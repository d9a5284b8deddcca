-- Orders. The order of locks is that of holds: account, seats ascending, holds ascending, order, outbox.

-- Turns a hold into an order and asks for its charge, in one transaction.
--   CREATED, REPLAY, EXISTS   order_id
--   REUSED                    the key belongs to an order of another hold or payment token
--   EXPIRED                   the hold has ended, and no order came of it
--   NO_HOLD                   none of the account's
CREATE FUNCTION create_order(
  p_account text, p_hold uuid, p_key text, p_fingerprint bytea, p_email text, p_payment_token text, p_grace interval,
  OUT verdict text, OUT order_id uuid, OUT event_id bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  h hold;
  v_same boolean;
  v_now timestamptz;
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
  -- it the grace is safe.
  PERFORM FROM seat s WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats) ORDER BY s.seat_id FOR NO KEY UPDATE;
  verdict := 'EXPIRED';
  IF h.expires_at + p_grace <= clock_timestamp() OR cardinality(h.seats) > (
       SELECT count(*) FROM seat s WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats)
          AND s.state = 'HELD' AND s.hold_id = p_hold) THEN
    RETURN;
  END IF;
  UPDATE hold SET state = 'CONFIRMED', end_time = clock_timestamp(), swept = true
   WHERE hold_id = p_hold AND state = 'ACTIVE';
  IF NOT FOUND THEN RETURN; END IF;

  verdict := 'CREATED';
  order_id := uuidv7();
  v_now := clock_timestamp();
  UPDATE seat s SET state = 'PENDING_PAYMENT', hold_id = NULL, hold_expires_at = NULL, order_id = create_order.order_id
   WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats) AND s.state = 'HELD' AND s.hold_id = p_hold;
  INSERT INTO orders (order_id, event_id, account, email, hold_id, idempotency_key, fingerprint, seat_count,
                      currency_code, total_amount, fee_amount, create_time)
  SELECT create_order.order_id, h.event_id, p_account, p_email, p_hold, p_key, p_fingerprint, cardinality(h.seats),
         h.currency_code, sum(p.price + p.fee), sum(p.fee), v_now
    FROM unnest(h.prices, h.fees) p(price, fee);
  INSERT INTO order_seat (order_id, seat_id, event_id, price, fee)
  SELECT create_order.order_id, p.seat_id, h.event_id, p.price, p.fee
    FROM unnest(h.seats, h.prices, h.fees) p(seat_id, price, fee);
  INSERT INTO outbox (sink, aggregate_id, kind, payload)
  SELECT 'payments', o.order_id::text, 'charge',
         jsonb_build_object('currency_code', o.currency_code, 'amount_minor', o.total_amount,
                            'payment_token', p_payment_token)
    FROM orders o WHERE o.order_id = create_order.order_id;
END $$;

-- Moves all of an order's seats from one state to another, fenced by the order's id; all, or an error. Called with the
-- seats locked.
CREATE FUNCTION move_order_seats(p_event bigint, p_order uuid, p_seats int[], p_from text, p_to text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_written int;
BEGIN
  UPDATE seat s SET state = p_to, order_id = CASE WHEN p_to <> 'AVAILABLE' THEN p_order END
   WHERE s.event_id = p_event AND s.seat_id = ANY (p_seats) AND s.state = p_from
     AND s.order_id IS NOT DISTINCT FROM CASE WHEN p_from <> 'AVAILABLE' THEN p_order END;
  GET DIAGNOSTICS v_written = ROW_COUNT;
  IF v_written <> cardinality(p_seats) THEN
    RAISE EXCEPTION 'order % has % of its % seats', p_order, v_written, cardinality(p_seats);
  END IF;
END $$;

-- Judges, once, money that came after its order had failed: the same seats again, if all are free, on sale and within
-- the account's cap; else the money is owed back. Called with account, seats and order locked.
CREATE FUNCTION retake_seats(o orders, p_seats int[], p_grace interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_won boolean;
BEGIN
  IF EXISTS (SELECT FROM late_payment WHERE order_id = o.order_id) THEN RETURN false; END IF;
  SELECT (SELECT count(*) FROM seat s WHERE s.event_id = o.event_id AND s.seat_id = ANY (p_seats)
             AND s.state = 'AVAILABLE') = o.seat_count
         AND e.sale_end_time > clock_timestamp()
         AND tickets_in_use(o.event_id, o.account, p_grace) + o.seat_count <= e.tickets_per_account
    INTO v_won FROM event e WHERE e.event_id = o.event_id;
  INSERT INTO late_payment (order_id, verdict, judge_time)
  VALUES (o.order_id, CASE WHEN v_won THEN 'RETAKEN' ELSE 'REFUND' END, clock_timestamp());
  IF v_won THEN
    PERFORM move_order_seats(o.event_id, o.order_id, p_seats, 'AVAILABLE', 'SOLD');
    UPDATE order_seat SET live = true WHERE order_id = o.order_id;
    UPDATE orders SET state = 'CONFIRMED', payment_state = 'SUCCEEDED', failure_reason = NULL, confirm_time = clock_timestamp()
     WHERE order_id = o.order_id AND state = 'FAILED';
  ELSE
    UPDATE orders SET payment_state = 'SUCCEEDED' WHERE order_id = o.order_id AND state = 'FAILED';
  END IF;
  RETURN v_won;
END $$;

-- What became of an order's charge, told at least once: SUCCEEDED, FAILED (p_reason says why) or UNKNOWN, which decides
-- nothing. RECORDED, now or before; RETAKEN, the same for late money; CONFLICT when another outcome stands; NO_ORDER.
-- order_state is the order's state after it, event_id and account are the order's.
CREATE FUNCTION record_payment_outcome(p_order uuid, p_outcome text, p_reason text, p_grace interval,
  OUT verdict text, OUT order_state text, OUT event_id bigint, OUT account text)
LANGUAGE plpgsql AS $$
DECLARE
  o orders;
  v_seats int[];
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF NOT FOUND THEN verdict := 'NO_ORDER'; RETURN; END IF;
  SELECT array_agg(seat_id ORDER BY seat_id) INTO v_seats FROM order_seat WHERE order_id = p_order;
  PERFORM pg_advisory_xact_lock(account_lock(o.event_id, o.account));
  PERFORM FROM seat s WHERE s.event_id = o.event_id AND s.seat_id = ANY (v_seats) ORDER BY s.seat_id FOR NO KEY UPDATE;
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR NO KEY UPDATE;  -- the row as locked decides

  verdict := 'RECORDED';
  IF o.state = 'PENDING_PAYMENT' AND p_outcome = 'SUCCEEDED' THEN
    PERFORM move_order_seats(o.event_id, p_order, v_seats, 'PENDING_PAYMENT', 'SOLD');
    UPDATE orders SET state = 'CONFIRMED', payment_state = 'SUCCEEDED', confirm_time = clock_timestamp()
     WHERE order_id = p_order AND state = 'PENDING_PAYMENT';
  ELSIF o.state = 'PENDING_PAYMENT' AND p_outcome = 'FAILED' THEN
    PERFORM move_order_seats(o.event_id, p_order, v_seats, 'PENDING_PAYMENT', 'AVAILABLE');
    UPDATE order_seat SET live = false WHERE order_id = p_order;
    UPDATE orders SET state = 'FAILED', payment_state = 'FAILED', failure_reason = p_reason
     WHERE order_id = p_order AND state = 'PENDING_PAYMENT';
  ELSIF o.state = 'PENDING_PAYMENT' THEN
    UPDATE orders SET payment_state = 'UNKNOWN' WHERE order_id = p_order AND state = 'PENDING_PAYMENT';
  ELSIF o.state = 'FAILED' AND p_outcome = 'SUCCEEDED' THEN
    verdict := CASE WHEN retake_seats(o, v_seats, p_grace) THEN 'RETAKEN' ELSE 'CONFLICT' END;
  ELSIF o.state IN ('CONFIRMED', 'CANCELLED') AND p_outcome = 'FAILED' THEN
    verdict := 'CONFLICT';
  ELSE
    PERFORM pg_logical_emit_message(true, 'replay', '');  -- known already, or too late to matter; replicated all the same
  END IF;
  SELECT q.state, q.event_id, q.account INTO order_state, event_id, account FROM orders q WHERE q.order_id = p_order;
END $$;
