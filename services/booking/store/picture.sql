-- name: get_placed_seats(event)^
-- One statement, so that it is all of one version. In the plan's order. Numbers come in one piece, four bytes each, and
-- a section's name once, with the place where it begins: to read a million values one by one would hold up everybody
-- else in the process.
SELECT e.version, e.focal_x, e.focal_y,
       (SELECT coalesce(array_agg(t.tier), '{}') FROM tier t WHERE t.event_id = e.event_id) AS tiers,
       p.seats, p.seat_tiers, p.sections, p.begins, p.row_indexes, p.x, p.y, p.accessible, p.companion
  FROM event e
 CROSS JOIN LATERAL (
   SELECT coalesce(string_agg(int4send(q.seat_id), ''), '') AS seats,
          coalesce(string_agg(int4send(q.tier), ''), '') AS seat_tiers,
          coalesce(array_agg(q.section) FILTER (WHERE q.begins), '{}') AS sections,
          coalesce(array_agg(q.place) FILTER (WHERE q.begins), '{}') AS begins,
          coalesce(string_agg(int4send(q.row_index), ''), '') AS row_indexes,
          coalesce(string_agg(int4send(q.x), ''), '') AS x,
          coalesce(string_agg(int4send(q.y), ''), '') AS y,
          coalesce(string_agg(boolsend(q.accessible), ''), '') AS accessible,
          coalesce(string_agg(boolsend(q.companion), ''), '') AS companion
     FROM (SELECT s.seat_id, s.tier, s.section, p.row_index, p.x, p.y, p.accessible, p.companion,
                  row_number() OVER places - 1 AS place, s.section IS DISTINCT FROM lag(s.section) OVER places AS begins
             FROM seat s JOIN seat_place p ON p.event_id = s.event_id AND p.seat_id = s.seat_id
            WHERE s.event_id = e.event_id
           WINDOW places AS (ORDER BY p.section_index, p.row_index, p.place)
            ORDER BY p.section_index, p.row_index, p.place) q) p
 WHERE e.event_id = :event;

-- name: get_states(event)^
-- A letter for each seat, ascending by id: F can be held now, an expired hold's seat too; H may come back; X is gone.
-- The statement's own time will do: a hold that ends while it runs is seen by the next.
SELECT e.version,
       (SELECT string_agg(CASE WHEN s.state = 'AVAILABLE' OR s.state = 'HELD' AND s.hold_expires_at <= now() THEN 'F'
                               WHEN s.state IN ('HELD', 'PENDING_PAYMENT') THEN 'H' ELSE 'X' END, '')
          FROM (SELECT state, hold_expires_at FROM seat WHERE event_id = e.event_id ORDER BY seat_id) s) AS states
  FROM event e WHERE e.event_id = :event;

-- name: get_replay(event, account, key)^
-- The hold that a key has made, with a commit to wait for: what is answered is replicated too.
WITH k AS MATERIALIZED (
  SELECT hold_id, fingerprint FROM hold WHERE event_id = :event AND account = :account AND idempotency_key = :key)
SELECT k.hold_id, k.fingerprint, pg_logical_emit_message(true, 'replay', '') FROM k;

-- name: get_cap(event, account, grace)^
-- How many tickets an account may have, and has; while the event is on sale. Without the account's lock: it is for a
-- party that is over the cap by itself.
SELECT tickets_per_account AS cap, tickets_in_use(event_id, :account, :grace) AS used
  FROM event
 WHERE event_id = :event AND clock_timestamp() >= sale_start_time AND clock_timestamp() < sale_end_time;
