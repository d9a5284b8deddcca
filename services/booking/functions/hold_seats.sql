-- Holds. In every function here locking, reading and writing are separate statements, each with its own snapshot: a
-- statement that locks rows and decides on them in one go decides on what they were before the lock was granted.
--
-- The order of locks, everywhere: account, seats ascending, holds ascending, order, outbox.

-- The lock of an account at an event. No row: nothing to insert, nothing to write. It covers the account's keys and
-- its cap. Two accounts that fall on one number only wait for each other.
CREATE OR REPLACE FUNCTION account_lock(p_event bigint, p_account text) RETURNS bigint IMMUTABLE LANGUAGE sql
RETURN hashtextextended(p_account, p_event);

-- What an account has at an event, in one statement: what becomes an order meanwhile is counted once.
--   tickets  in use, over holds and orders: what its cap counts. A hold counts until its record ends or the grace is
--            over, for until then it may still become an order.
--   holds    of the last ten minutes: what its budget counts. One that became an order is none of them, whether it
--            was paid or declined.
-- STABLE and plain SQL, so that it reads with its caller's snapshot and is planned as a part of the caller's statement;
-- call it under the account's lock.
CREATE OR REPLACE FUNCTION account_at_event(p_event bigint, p_account text, p_grace interval)
RETURNS TABLE (tickets bigint, holds bigint) STABLE LANGUAGE sql AS $$
  SELECT h.tickets + coalesce((
           SELECT sum(o.ticket_count) FROM orders o WHERE o.event_id = p_event AND o.account = p_account
              AND o.state IN ('PENDING_PAYMENT', 'CONFIRMED')), 0),
         h.holds
    FROM (SELECT coalesce(sum(ticket_count) FILTER (
                   WHERE state = 'ACTIVE' AND expires_at > clock_timestamp() - p_grace), 0) AS tickets,
                 count(*) FILTER (
                   WHERE state <> 'CONFIRMED' AND create_time > clock_timestamp() - interval '10 minutes') AS holds
            FROM hold WHERE event_id = p_event AND account = p_account) h
$$;

CREATE OR REPLACE FUNCTION tickets_in_use(p_event bigint, p_account text, p_grace interval) RETURNS int STABLE LANGUAGE sql
RETURN (SELECT tickets FROM account_at_event(p_event, p_account, p_grace));

-- When an account that spent its budget of p_holds may hold again: when the oldest of its last p_holds is ten minutes
-- old.
CREATE OR REPLACE FUNCTION hold_budget_returns(p_event bigint, p_account text, p_holds int) RETURNS timestamptz
STABLE LANGUAGE sql
RETURN (SELECT create_time + interval '10 minutes' FROM hold
         WHERE event_id = p_event AND account = p_account AND state <> 'CONFIRMED'
         ORDER BY create_time DESC OFFSET p_holds - 1 LIMIT 1);

-- A batch of 1 to 64 holds in one call. Request r is element r of p_account … p_end and wants the seats
-- p_seat[p_end[r - 1] + 1 : p_end[r]], ascending and without repeats; p_seat_request and p_seat_event say of each seat
-- whose request it is, and which event. The caller has seen to it that no two requests share a seat or an account
-- (and so a key). p_plan[r]: the version of the event by whose plan the house chose the seats; 0: the buyer picked them.
-- p_wait: one request alone, which waits for locks; otherwise a request that meets a lock is BUSY, to be run again alone.
--
-- Verdict of request r, and what comes with it:
--   HELD                          hold_id[r], expires_at[r]
--   REPLAY                        hold_id[r]
--   REUSED                        its key belongs to a hold of other content
--   NO_EVENT, NOT_ON_SALE
--   SELECTION_CLOSED              picked, and the event gives out the best available only
--   CAP                           used[r] tickets of the account before this request
--   BUDGET                        retry_time[r]
--   OLD_PLAN                      chosen by another version's plan: its tiers and sections may not be these
--   NO_SEAT, LOST                 the elements of lost_seat whose lost_request is r; a LOST list is exact
--   BUSY                          nothing is known
-- and version[r], of the event by which it was judged and priced: when another comes meanwhile, the call fails, and the
-- caller makes it again.
-- A request that is not HELD has written nothing; the others stand.
CREATE OR REPLACE FUNCTION hold_seats(
  p_wait boolean, p_grace interval,
  p_account text[], p_event bigint[], p_key text[], p_fingerprint bytea[], p_end int[],
  p_seat_request int[], p_seat_event bigint[], p_seat int[], p_plan int[],
  OUT verdict text[], OUT version int[], OUT hold_id uuid[], OUT expires_at timestamptz[], OUT used int[],
  OUT retry_time timestamptz[], OUT lost_request int[], OUT lost_seat int[])
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  n int := cardinality(p_account);
  i int;
  r record;
  v_wanted int;               -- seats of the requests that still stand
  v_holds int := 0;           -- requests that still stand
  v_written int;
  v_all boolean := true;      -- every request still stands
  v_for interval[];           -- by request: how long the hold lasts
  v_locked int[];             -- of the seats locked: their places in p_seat,
  v_tier_price bigint[];      --   what each costs,
  v_tier_fee bigint[];        --   and its fee
  v_taken int[];              -- … those that another has
  v_old_place int[];          -- … those of an expired hold,
  v_old uuid[];               --   and that hold
  v_mine uuid[];              -- expired holds whose record is ours to end
  v_price bigint[];           -- of each seat, by its place in p_seat
  v_fee bigint[];
  v_now timestamptz;
BEGIN
  verdict := array_fill('HELD'::text, ARRAY[n]);
  version := array_fill(0, ARRAY[n]);
  hold_id := array_fill(NULL::uuid, ARRAY[n]);
  expires_at := array_fill(NULL::timestamptz, ARRAY[n]);
  used := array_fill(0, ARRAY[n]);
  retry_time := array_fill(NULL::timestamptz, ARRAY[n]);
  v_for := array_fill(NULL::interval, ARRAY[n]);

  -- 1. Lock the accounts. A key belongs to its account, so it needs no lock of its own.
  FOR i IN 1..n LOOP
    IF p_wait THEN
      PERFORM pg_advisory_xact_lock(account_lock(p_event[i], p_account[i]));
    ELSIF NOT pg_try_advisory_xact_lock(account_lock(p_event[i], p_account[i])) THEN
      verdict[i] := 'BUSY';
      v_all := false;
    END IF;
  END LOOP;

  -- 2. Replays, the way of selling, the sale's window, caps, budgets, plans. A replay comes first: the same request
  -- gives the same answer at any time.
  FOR r IN
    SELECT q.place::int AS place, k.hold_id AS known, k.fingerprint = q.fingerprint AS same, e.version,
           q.plan = 0 AND e.selection_mode = 'BEST_AVAILABLE' AS no_picks, q.plan NOT IN (0, e.version) AS old_plan,
           clock_timestamp() < e.sale_start_time OR clock_timestamp() >= e.sale_end_time AS closed,
           CASE WHEN clock_timestamp() < e.onsale_end_time THEN least(e.hold_duration, e.onsale_hold_duration)
                ELSE e.hold_duration END AS lasts,
           e.tickets_per_account AS cap, a.tickets, q.upto - coalesce(p_end[q.place - 1], 0) AS asked,
           a.holds >= e.holds_per_account AS spent, e.holds_per_account AS budget
      FROM unnest(p_event, p_account, p_key, p_fingerprint, p_end, p_plan)
           WITH ORDINALITY q(event_id, account, key, fingerprint, upto, plan, place)
     CROSS JOIN LATERAL account_at_event(q.event_id, q.account, p_grace) a
      LEFT JOIN event e ON e.event_id = q.event_id
      LEFT JOIN hold k ON k.event_id = q.event_id AND k.account = q.account AND k.idempotency_key = q.key
     WHERE verdict[q.place] = 'HELD'
  LOOP
    IF r.version IS NOT NULL THEN version[r.place] := r.version; END IF;
    IF r.same THEN
      -- A commit to wait for, so that what is answered is replicated too; and no row to lock.
      PERFORM pg_logical_emit_message(true, 'replay', '');
      verdict[r.place] := 'REPLAY';
      hold_id[r.place] := r.known;
    ELSIF r.known IS NOT NULL THEN verdict[r.place] := 'REUSED';
    ELSIF r.version IS NULL THEN verdict[r.place] := 'NO_EVENT';
    ELSIF r.no_picks THEN verdict[r.place] := 'SELECTION_CLOSED';
    ELSIF r.closed THEN verdict[r.place] := 'NOT_ON_SALE';
    ELSIF r.tickets + r.asked > r.cap THEN
      verdict[r.place] := 'CAP';
      used[r.place] := r.tickets;
    ELSIF r.spent THEN
      verdict[r.place] := 'BUDGET';
      retry_time[r.place] := hold_budget_returns(p_event[r.place], p_account[r.place], r.budget);
    ELSIF r.old_plan THEN verdict[r.place] := 'OLD_PLAN';
    ELSE
      v_for[r.place] := r.lasts;
      CONTINUE;
    END IF;
    v_all := false;
  END LOOP;

  -- 3. Lock the seats, ascending, by their key alone: what comes back is the row as locked, whatever the snapshot.
  IF p_wait THEN
    SELECT array_agg(q.place), array_agg(q.place) FILTER (WHERE NOT q.free),
           array_agg(q.place) FILTER (WHERE q.free AND q.state = 'HELD'),
           array_agg(q.hold_id) FILTER (WHERE q.free AND q.state = 'HELD'), array_agg(q.price), array_agg(q.fee)
      INTO v_locked, v_taken, v_old_place, v_old, v_tier_price, v_tier_fee FROM (
      SELECT z.*, z.state = 'AVAILABLE' OR z.state = 'HELD' AND z.hold_expires_at <= clock_timestamp() AS free FROM (
        SELECT u.place::int, s.state, s.hold_id, s.hold_expires_at, t.price, t.fee
          FROM unnest(p_seat_request, p_seat_event, p_seat) WITH ORDINALITY u(request, event_id, seat_id, place)
          JOIN seat s ON s.event_id = u.event_id AND s.seat_id = u.seat_id
          LEFT JOIN tier t ON t.event_id = s.event_id AND t.tier = s.tier
         WHERE verdict[u.request] = 'HELD'
         ORDER BY s.event_id, s.seat_id FOR NO KEY UPDATE OF s) z) q;
  ELSE
    SELECT array_agg(q.place), array_agg(q.place) FILTER (WHERE NOT q.free),
           array_agg(q.place) FILTER (WHERE q.free AND q.state = 'HELD'),
           array_agg(q.hold_id) FILTER (WHERE q.free AND q.state = 'HELD'), array_agg(q.price), array_agg(q.fee)
      INTO v_locked, v_taken, v_old_place, v_old, v_tier_price, v_tier_fee FROM (
      SELECT z.*, z.state = 'AVAILABLE' OR z.state = 'HELD' AND z.hold_expires_at <= clock_timestamp() AS free FROM (
        SELECT u.place::int, s.state, s.hold_id, s.hold_expires_at, t.price, t.fee
          FROM unnest(p_seat_request, p_seat_event, p_seat) WITH ORDINALITY u(request, event_id, seat_id, place)
          JOIN seat s ON s.event_id = u.event_id AND s.seat_id = u.seat_id
          LEFT JOIN tier t ON t.event_id = s.event_id AND t.tier = s.tier
         WHERE verdict[u.request] = 'HELD'
         ORDER BY s.event_id, s.seat_id FOR NO KEY UPDATE OF s SKIP LOCKED) z) q;
  END IF;
  -- A seat that did not come back is locked by another, or is none of the event's. Both go before LOST: a caller whose
  -- list of lost seats is not exact would ask for the wrong ones next.
  v_wanted := cardinality(p_seat);
  IF NOT v_all THEN
    SELECT count(*) INTO v_wanted FROM unnest(p_seat_request) u(request) WHERE verdict[u.request] = 'HELD';
  END IF;
  IF coalesce(cardinality(v_locked), 0) < v_wanted THEN
    FOR i IN 1..cardinality(p_seat) LOOP
      CONTINUE WHEN verdict[p_seat_request[i]] NOT IN ('HELD', 'NO_SEAT') OR i = ANY (v_locked);
      verdict[p_seat_request[i]] := CASE WHEN p_wait THEN 'NO_SEAT' ELSE 'BUSY' END;
      IF p_wait THEN lost_request := lost_request || p_seat_request[i]; lost_seat := lost_seat || p_seat[i]; END IF;
    END LOOP;
  END IF;
  FOR i IN 1..coalesce(cardinality(v_locked), 0) LOOP
    v_price[v_locked[i]] := v_tier_price[i];
    v_fee[v_locked[i]] := v_tier_fee[i];
  END LOOP;
  FOREACH i IN ARRAY coalesce(v_taken, '{}') LOOP
    CONTINUE WHEN verdict[p_seat_request[i]] NOT IN ('HELD', 'LOST');
    verdict[p_seat_request[i]] := 'LOST';
    lost_request := lost_request || p_seat_request[i];
    lost_seat := lost_seat || p_seat[i];
  END LOOP;

  -- 4. Lock the records of the holds taken over, ascending (two batches may take two seats of one hold), and end them.
  -- Their other seats are the sweeper's.
  IF v_old IS NOT NULL THEN
    IF p_wait THEN
      PERFORM FROM hold h WHERE h.hold_id = ANY (v_old) ORDER BY h.hold_id FOR NO KEY UPDATE;
    ELSE
      SELECT array_agg(q.hold_id) INTO v_mine FROM (
        SELECT h.hold_id FROM hold h WHERE h.hold_id = ANY (v_old) ORDER BY h.hold_id FOR NO KEY UPDATE SKIP LOCKED) q;
      FOR i IN 1..cardinality(v_old) LOOP
        IF verdict[p_seat_request[v_old_place[i]]] = 'HELD' AND v_old[i] <> ALL (coalesce(v_mine, '{}')) THEN
          verdict[p_seat_request[v_old_place[i]]] := 'BUSY';
        END IF;
      END LOOP;
    END IF;
    SELECT array_agg(v_old[j]) INTO v_mine
      FROM generate_subscripts(v_old, 1) j WHERE verdict[p_seat_request[v_old_place[j]]] = 'HELD';
    UPDATE hold h SET state = 'EXPIRED', end_time = clock_timestamp() WHERE h.hold_id = ANY (v_mine) AND h.state = 'ACTIVE';
  END IF;

  -- 5. Write. The clock is read now: now() is older by all the waiting.
  v_now := date_trunc('milliseconds', clock_timestamp());
  v_wanted := 0;
  FOR i IN 1..n LOOP
    CONTINUE WHEN verdict[i] <> 'HELD';
    hold_id[i] := uuidv7();
    expires_at[i] := v_now + v_for[i];
    v_holds := v_holds + 1;
    v_wanted := v_wanted + p_end[i] - coalesce(p_end[i - 1], 0);
  END LOOP;
  IF v_wanted = 0 THEN RETURN; END IF;
  UPDATE seat s SET state = 'HELD', hold_id = hold_seats.hold_id[u.request],
                    hold_expires_at = hold_seats.expires_at[u.request]
    FROM unnest(p_seat_request, p_seat_event, p_seat) u(request, event_id, seat_id)
   WHERE s.event_id = u.event_id AND s.seat_id = u.seat_id AND verdict[u.request] = 'HELD';
  GET DIAGNOSTICS v_written = ROW_COUNT;
  IF v_written <> v_wanted THEN RAISE EXCEPTION 'hold_seats wrote % of % seats', v_written, v_wanted; END IF;
  INSERT INTO hold (hold_id, event_id, account, idempotency_key, fingerprint, ticket_count, seats, prices, fees,
                    currency_code, create_time, expires_at)
  SELECT hold_seats.hold_id[q.place], q.event_id, q.account, q.key, q.fingerprint, q.upto - q.since,
         p_seat[q.since + 1:q.upto], v_price[q.since + 1:q.upto], v_fee[q.since + 1:q.upto], e.currency_code, v_now,
         hold_seats.expires_at[q.place]
    FROM unnest(p_event, p_account, p_key, p_fingerprint, 0 || p_end, p_end)
         WITH ORDINALITY q(event_id, account, key, fingerprint, since, upto, place)
    JOIN event e ON e.event_id = q.event_id AND e.version = hold_seats.version[q.place]
   WHERE verdict[q.place] = 'HELD';
  GET DIAGNOSTICS v_written = ROW_COUNT;
  IF v_written <> v_holds THEN
    -- A new version came between judging and pricing. The caller asks again, as after a deadlock.
    RAISE EXCEPTION 'the event changed meanwhile' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;
