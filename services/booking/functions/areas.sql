-- General admission: units of an area without seats, taken from its counters (migrations/0002_areas.sql).
--
-- The order of locks is that of seats: account, counters ascending, holds ascending, order, outbox. Whoever needs more
-- than one counter locks them all at once, in one statement that orders them.

-- Locks all counters of an area; how many units they have together.
CREATE OR REPLACE FUNCTION lock_area(p_event bigint, p_area int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_counters int;
  v_available int;
BEGIN
  LOOP
    SELECT count(*), sum(z.available) INTO v_counters, v_available FROM (
      SELECT c.available FROM area_counter c WHERE c.event_id = p_event AND c.area_id = p_area
       ORDER BY c.counter FOR NO KEY UPDATE) z;
    -- An area that grew while we waited has new counters behind the old ones: lock those too.
    EXIT WHEN v_counters = (SELECT count(*) FROM area_counter WHERE event_id = p_event AND area_id = p_area);
  END LOOP;
  RETURN coalesce(v_available, 0);
END $$;

-- Takes units from the counters of an area that is locked and has them: from one counter, if any has so many, else from
-- as many as it needs, and then what is left is gathered in the first, so that the last units are found together. The
-- search begins at p_first.
CREATE OR REPLACE FUNCTION take_units(p_event bigint, p_area int, p_quantity int, p_first int, OUT counters int[], OUT amounts int[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_written int;
BEGIN
  SELECT ARRAY[c.counter], ARRAY[p_quantity] INTO counters, amounts FROM area_counter c
   WHERE c.event_id = p_event AND c.area_id = p_area AND c.available >= p_quantity
   ORDER BY c.counter < p_first, c.counter LIMIT 1;
  IF FOUND THEN
    UPDATE area_counter c SET available = c.available - p_quantity
     WHERE c.event_id = p_event AND c.area_id = p_area AND c.counter = take_units.counters[1];
    RETURN;
  END IF;
  SELECT array_agg(q.counter ORDER BY q.counter),
         array_agg(least(q.available, p_quantity - q.before) ORDER BY q.counter) INTO counters, amounts
    FROM (SELECT c.counter, c.available, (sum(c.available) OVER w)::int - c.available AS before FROM area_counter c
           WHERE c.event_id = p_event AND c.area_id = p_area AND c.available > 0
          WINDOW w AS (ORDER BY c.counter < p_first, c.counter)) q
   WHERE q.before < p_quantity;
  UPDATE area_counter c SET available = CASE WHEN c.counter = 0 THEN u.left_over ELSE 0 END
    FROM (SELECT sum(a.available) - p_quantity AS left_over FROM area_counter a
           WHERE a.event_id = p_event AND a.area_id = p_area) u
   WHERE c.event_id = p_event AND c.area_id = p_area AND (c.counter = 0 OR c.available > 0);
  SELECT sum(q.amount) INTO v_written FROM unnest(take_units.amounts) q(amount);
  IF v_written IS DISTINCT FROM p_quantity THEN RAISE EXCEPTION 'take_units took % of % units', v_written, p_quantity; END IF;
END $$;

-- Gives units back to the counters that they came from. Call it with those locked, and only after a guarded change of
-- the hold or order that had them: that is what makes it once.
CREATE OR REPLACE FUNCTION give_units_back(p_event bigint, p_area int, p_counters int[], p_amounts int[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_missing int;
BEGIN
  UPDATE area_counter c SET available = c.available + u.amount
    FROM (SELECT q.counter, sum(q.amount) AS amount FROM unnest(p_counters, p_amounts) q(counter, amount) GROUP BY 1) u
   WHERE c.event_id = p_event AND c.area_id = p_area AND c.counter = u.counter;
  GET DIAGNOSTICS v_missing = ROW_COUNT;
  SELECT count(DISTINCT q.counter) - v_missing INTO v_missing FROM unnest(p_counters) q(counter);
  IF v_missing <> 0 THEN RAISE EXCEPTION 'area % lacks % counters', p_area, v_missing; END IF;
END $$;

-- Ends those of the holds that are still to be ended and whose time has been over for p_grace, and gives their units
-- back; how many holds. Call it with the counters of the area locked.
CREATE OR REPLACE FUNCTION give_holds_back(p_event bigint, p_area int, p_holds uuid[], p_grace interval) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_holds uuid[];
  v_counters int[];
  v_amounts int[];
BEGIN
  PERFORM FROM hold h WHERE h.hold_id = ANY (p_holds) ORDER BY h.hold_id FOR NO KEY UPDATE;
  WITH ended AS (
    UPDATE hold h SET swept = true, state = 'EXPIRED', end_time = clock_timestamp()
     WHERE h.hold_id = ANY (p_holds) AND h.event_id = p_event AND h.area_id = p_area AND h.state = 'ACTIVE' AND NOT h.swept
       AND h.expires_at <= clock_timestamp() - p_grace
    RETURNING h.hold_id, h.counters, h.amounts)
  SELECT array_agg(DISTINCT e.hold_id), array_agg(u.counter), array_agg(u.amount) INTO v_holds, v_counters, v_amounts
    FROM ended e, unnest(e.counters, e.amounts) u(counter, amount);
  IF v_holds IS NULL THEN RETURN 0; END IF;
  PERFORM give_units_back(p_event, p_area, v_counters, v_amounts);
  RETURN cardinality(v_holds);
END $$;

-- Holds units of an area.
--   HELD, REPLAY              hold_id
--   REUSED                    the key belongs to a hold of something else
--   NO_EVENT, NO_AREA, NOT_ON_SALE
--   CAP                       used tickets of the account before this request, of few that it may have
--   BUDGET                    retry_time: when the account may hold again
--   FEW                       too few are left: so many could be had
--   ALL_HELD, SOLD_OUT        none are left; of ALL_HELD some may come back
--   AGAIN                     a counter was emptied under our eyes: call again with p_all
-- What is not HELD has written nothing, but that expired holds may have been ended.
--
-- It is judged and priced by one version of the event: when another comes meanwhile (it locks the counters, so it is
-- often what was waited for), the call fails, and the caller makes it again.
--
-- One counter is locked and no more, if one has enough: then nobody waits but who is after the same. With p_all, or when
-- no counter has enough, all are. That a lone counter was too low is only found with it locked, and then it would be too
-- late to lock those before it; so the call ends, which lets go of it, and comes again.
CREATE OR REPLACE FUNCTION hold_area(
  p_event bigint, p_account text, p_key text, p_fingerprint bytea, p_area int, p_quantity int, p_grace interval, p_all boolean,
  OUT verdict text, OUT hold_id uuid, OUT used int, OUT few int, OUT retry_time timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  e event;
  a area;
  r record;
  v_first int;          -- where this account's search begins
  v_counter int;        -- one that has enough, as far as could be seen
  v_left int;
  v_expired uuid[];
  v_counters int[];
  v_amounts int[];
  v_now timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(account_lock(p_event, p_account));
  SELECT h.hold_id, h.fingerprint = p_fingerprint AS same INTO r FROM hold h
   WHERE h.event_id = p_event AND h.account = p_account AND h.idempotency_key = p_key;
  IF FOUND THEN
    verdict := CASE WHEN r.same THEN 'REPLAY' ELSE 'REUSED' END;
    hold_id := r.hold_id;
    PERFORM pg_logical_emit_message(true, 'replay', '');  -- a commit to wait for: what is answered is replicated too
    RETURN;
  END IF;
  SELECT * INTO e FROM event WHERE event_id = p_event;
  IF NOT FOUND THEN verdict := 'NO_EVENT'; RETURN; END IF;
  SELECT * INTO a FROM area WHERE event_id = p_event AND area_id = p_area;
  IF NOT FOUND THEN verdict := 'NO_AREA'; RETURN; END IF;
  IF clock_timestamp() < e.sale_start_time OR clock_timestamp() >= e.sale_end_time THEN verdict := 'NOT_ON_SALE'; RETURN; END IF;
  SELECT tickets, holds INTO r FROM account_at_event(p_event, p_account, p_grace);
  used := r.tickets;
  IF used + p_quantity > e.tickets_per_account THEN
    verdict := 'CAP';
    few := e.tickets_per_account;
    RETURN;
  END IF;
  IF r.holds >= e.holds_per_account THEN
    verdict := 'BUDGET';
    retry_time := hold_budget_returns(p_event, p_account, e.holds_per_account);
    RETURN;
  END IF;

  -- What there is, at one moment. If it is not enough and no hold has run out, there is nothing to wait for. (The clock
  -- in a variable: only what stands still during a statement can bound an index.)
  v_now := clock_timestamp();
  SELECT abs(hashtext(p_account)::bigint) % count(*) INTO v_first FROM area_counter
   WHERE event_id = p_event AND area_id = p_area;
  SELECT sum(c.available)::int AS available,
         (array_agg(c.counter ORDER BY c.counter < v_first, c.counter) FILTER (WHERE c.available >= p_quantity))[1] AS counter,
         EXISTS (SELECT FROM hold h WHERE h.event_id = p_event AND h.area_id = p_area AND NOT h.swept
                    AND h.expires_at <= v_now) AS expired
    INTO r FROM area_counter c WHERE c.event_id = p_event AND c.area_id = p_area;
  v_left := r.available;
  v_counter := r.counter;

  IF v_counter IS NOT NULL AND NOT p_all THEN
    UPDATE area_counter SET available = available - p_quantity
     WHERE event_id = p_event AND area_id = p_area AND counter = v_counter AND available >= p_quantity;
    IF NOT FOUND THEN verdict := 'AGAIN'; RETURN; END IF;
    v_counters := ARRAY[v_counter];
    v_amounts := ARRAY[p_quantity];
  ELSIF p_all OR v_left >= p_quantity OR r.expired THEN
    v_left := lock_area(p_event, p_area);
    IF v_left < p_quantity THEN
      -- Holds whose time is over give back first. Each has a unit at least, so this is more than anybody asks for.
      v_now := clock_timestamp();
      SELECT array_agg(q.hold_id) INTO v_expired FROM (
        SELECT h.hold_id FROM hold h WHERE h.event_id = p_event AND h.area_id = p_area AND NOT h.swept
           AND h.expires_at <= v_now ORDER BY h.expires_at LIMIT 100) q;
      PERFORM give_holds_back(p_event, p_area, v_expired, interval '0');
      SELECT sum(c.available) INTO v_left FROM area_counter c WHERE c.event_id = p_event AND c.area_id = p_area;
    END IF;
    IF v_left >= p_quantity THEN
      SELECT t.counters, t.amounts INTO v_counters, v_amounts FROM take_units(p_event, p_area, p_quantity, v_first) t;
    END IF;
  END IF;
  IF v_counters IS NULL THEN
    few := v_left;
    verdict := CASE
      WHEN v_left > 0 THEN 'FEW'
      WHEN EXISTS (SELECT FROM hold h WHERE h.event_id = p_event AND h.area_id = p_area AND NOT h.swept)
        OR EXISTS (SELECT FROM orders o WHERE o.event_id = p_event AND o.area_id = p_area AND o.state = 'PENDING_PAYMENT')
        THEN 'ALL_HELD'
      ELSE 'SOLD_OUT' END;
    RETURN;
  END IF;

  -- The clock is read after the locks: now() is older by all the waiting.
  v_now := date_trunc('milliseconds', clock_timestamp());
  verdict := 'HELD';
  hold_id := uuidv7();
  INSERT INTO hold (hold_id, event_id, account, idempotency_key, fingerprint, ticket_count, seats, prices, fees, currency_code,
                    area_id, counters, amounts, create_time, expires_at)
  SELECT hold_area.hold_id, p_event, p_account, p_key, p_fingerprint, p_quantity, '{}', ARRAY[t.price], ARRAY[t.fee],
         e.currency_code, p_area, v_counters, v_amounts, v_now,
         v_now + CASE WHEN v_now < e.onsale_end_time THEN least(e.onsale_hold_duration, e.hold_duration) ELSE e.hold_duration END
    FROM event v JOIN tier t ON t.event_id = v.event_id AND t.tier = a.tier
   WHERE v.event_id = p_event AND v.version = e.version;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the event changed meanwhile' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;
