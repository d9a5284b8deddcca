-- How holds end but by an order: given back, or swept after their time.

-- Gives an account's hold back. NULL: no such hold of the account's; otherwise the state in which it is now ended.
-- One whose time had run out ends as EXPIRED, one that had ended before stays as it was.
CREATE OR REPLACE FUNCTION release_hold(p_account text, p_hold uuid) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  h hold;
  v_state text;
BEGIN
  SELECT * INTO h FROM hold WHERE hold_id = p_hold AND account = p_account;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM seat s WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats) ORDER BY s.seat_id FOR NO KEY UPDATE;
  PERFORM FROM area_counter c WHERE c.event_id = h.event_id AND c.area_id = h.area_id AND c.counter = ANY (h.counters)
    ORDER BY c.counter FOR NO KEY UPDATE;
  UPDATE hold
     SET state = CASE WHEN expires_at > clock_timestamp() THEN 'RELEASED' ELSE 'EXPIRED' END,
         end_time = clock_timestamp(), swept = true
   WHERE hold_id = p_hold AND state = 'ACTIVE'
  RETURNING state INTO v_state;
  IF NOT FOUND THEN RETURN (SELECT state FROM hold WHERE hold_id = p_hold); END IF;
  UPDATE seat s SET state = 'AVAILABLE', hold_id = NULL, hold_expires_at = NULL
   WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats) AND s.state = 'HELD' AND s.hold_id = p_hold;
  IF h.area_id IS NOT NULL THEN PERFORM give_units_back(h.event_id, h.area_id, h.counters, h.amounts); END IF;
  RETURN v_state;
END $$;

-- Frees the seats of at most p_limit holds whose time and grace are over, whether their record was ended by a takeover
-- or not; how many holds. Any number of sweepers may run: each passes over what another has locked, holds and seats
-- alike. It waits for nobody, so it may lock holds before seats; a hold with a seat that is locked is left for later.
-- (now() and not clock_timestamp(): only what stands still during a statement can bound the index.)
CREATE OR REPLACE FUNCTION sweep_holds(p_limit int, p_grace interval) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  v_holds uuid[];
  v_left uuid[];
BEGIN
  SELECT array_agg(q.hold_id) INTO v_holds FROM (
    SELECT hold_id FROM hold WHERE NOT swept AND area_id IS NULL AND expires_at <= now() - p_grace
     ORDER BY expires_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED) q;
  IF v_holds IS NULL THEN RETURN 0; END IF;
  WITH wanted AS (
    SELECT h.event_id, unnest(h.seats) AS seat_id, h.hold_id FROM hold h WHERE h.hold_id = ANY (v_holds)
  ), locked AS (
    SELECT s.event_id, s.seat_id FROM seat s JOIN (SELECT DISTINCT event_id, seat_id FROM wanted) u
        ON s.event_id = u.event_id AND s.seat_id = u.seat_id
       FOR NO KEY UPDATE OF s SKIP LOCKED
  )
  SELECT array_agg(DISTINCT w.hold_id) INTO v_left FROM wanted w
   WHERE NOT EXISTS (SELECT FROM locked l WHERE l.event_id = w.event_id AND l.seat_id = w.seat_id);
  v_holds := ARRAY(SELECT unnest(v_holds) EXCEPT SELECT unnest(v_left));
  UPDATE seat s SET state = 'AVAILABLE', hold_id = NULL, hold_expires_at = NULL
    FROM (SELECT h.event_id, h.hold_id, h.expires_at, unnest(h.seats) AS seat_id
            FROM hold h WHERE h.hold_id = ANY (v_holds)) u
   WHERE s.event_id = u.event_id AND s.seat_id = u.seat_id
     AND s.state = 'HELD' AND s.hold_id = u.hold_id AND s.hold_expires_at = u.expires_at;
  UPDATE hold
     SET swept = true, end_time = coalesce(end_time, clock_timestamp()),
         state = CASE state WHEN 'ACTIVE' THEN 'EXPIRED' ELSE state END
   WHERE hold_id = ANY (v_holds);
  RETURN cardinality(v_holds);
END $$;

-- The same for units, one area a call, of those that no other sweeper is at. Counters are wanted by everybody, so it
-- waits for them, and therefore locks them first, as everybody does.
CREATE OR REPLACE FUNCTION sweep_area_holds(p_limit int, p_grace interval) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  v_holds uuid[];
BEGIN
  FOR r IN
    SELECT DISTINCT q.event_id, q.area_id FROM (
      SELECT h.event_id, h.area_id FROM hold h
       WHERE NOT h.swept AND h.area_id IS NOT NULL AND h.expires_at <= now() - p_grace
       ORDER BY h.expires_at LIMIT p_limit) q
  LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(hashtextextended('sweep_area_holds ' || r.area_id, r.event_id));
    SELECT array_agg(q.hold_id) INTO v_holds FROM (
      SELECT h.hold_id FROM hold h
       WHERE h.event_id = r.event_id AND h.area_id = r.area_id AND NOT h.swept AND h.expires_at <= now() - p_grace
       ORDER BY h.expires_at LIMIT p_limit) q;
    PERFORM FROM area_counter c
      WHERE c.event_id = r.event_id AND c.area_id = r.area_id
        AND c.counter IN (SELECT unnest(h.counters) FROM hold h WHERE h.hold_id = ANY (v_holds))
      ORDER BY c.counter FOR NO KEY UPDATE;
    RETURN give_holds_back(r.event_id, r.area_id, v_holds, p_grace);
  END LOOP;
  RETURN 0;
END $$;
