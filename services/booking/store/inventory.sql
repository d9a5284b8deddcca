-- name: allow_long_statements#
-- 200,000 seats take longer than a buyer's statement may.
SET LOCAL statement_timeout = '60s';

-- name: put_event(event, version, fingerprint, name, start, end, cap, hold_duration, currency)$
-- NULL when this version, or a later one, is known. The row's lock makes two hand-overs of one event take turns.
INSERT INTO event (event_id, version, fingerprint, name, sale_start_time, sale_end_time, tickets_per_account,
                   hold_duration, currency_code)
VALUES (:event, :version, :fingerprint, :name, :start, :end, :cap, :hold_duration, :currency)
ON CONFLICT (event_id) DO UPDATE
   SET version = excluded.version, fingerprint = excluded.fingerprint, name = excluded.name,
       sale_start_time = excluded.sale_start_time, sale_end_time = excluded.sale_end_time,
       tickets_per_account = excluded.tickets_per_account, hold_duration = excluded.hold_duration,
       currency_code = excluded.currency_code
 WHERE event.version < excluded.version
RETURNING version;

-- name: get_version(event)^
SELECT version, fingerprint FROM event WHERE event_id = :event;

-- name: put_tiers(event, tiers, names, prices, fees)!
INSERT INTO tier (event_id, tier, name, price, fee)
SELECT :event, t.tier, t.name, t.price, t.fee
  FROM unnest(CAST(:tiers AS int[]), CAST(:names AS text[]), CAST(:prices AS bigint[]), CAST(:fees AS bigint[]))
       t(tier, name, price, fee)
ON CONFLICT (event_id, tier) DO UPDATE SET name = excluded.name, price = excluded.price, fee = excluded.fee;

-- name: lock_changed_seats(event, seats, tiers, sections, row_names, numbers)!
-- Ascending, as everywhere, before any of them is changed.
SELECT FROM seat s
  JOIN unnest(CAST(:seats AS int[]), CAST(:tiers AS int[]), CAST(:sections AS text[]), CAST(:row_names AS text[]),
              CAST(:numbers AS text[])) n(seat_id, tier, section, row_name, number) ON n.seat_id = s.seat_id
 WHERE s.event_id = :event
   AND (s.tier, s.section, s.row_name, s.number) IS DISTINCT FROM (n.tier, n.section, n.row_name, n.number)
 ORDER BY s.seat_id FOR NO KEY UPDATE OF s;

-- name: change_seats(event, seats, tiers, sections, row_names, numbers)!
UPDATE seat s SET tier = n.tier, section = n.section, row_name = n.row_name, number = n.number
  FROM unnest(CAST(:seats AS int[]), CAST(:tiers AS int[]), CAST(:sections AS text[]), CAST(:row_names AS text[]),
              CAST(:numbers AS text[])) n(seat_id, tier, section, row_name, number)
 WHERE s.event_id = :event AND s.seat_id = n.seat_id
   AND (s.tier, s.section, s.row_name, s.number) IS DISTINCT FROM (n.tier, n.section, n.row_name, n.number);

-- name: add_seats(event, seats, tiers, sections, row_names, numbers)!
INSERT INTO seat (event_id, seat_id, tier, section, row_name, number)
SELECT :event, n.seat_id, n.tier, n.section, n.row_name, n.number
  FROM unnest(CAST(:seats AS int[]), CAST(:tiers AS int[]), CAST(:sections AS text[]), CAST(:row_names AS text[]),
              CAST(:numbers AS text[])) n(seat_id, tier, section, row_name, number)
ON CONFLICT (event_id, seat_id) DO NOTHING;

-- name: count_all_seats(event)$
SELECT count(*) FROM seat WHERE event_id = :event;

-- name: analyze_seats#
-- A plan that was made while the table was small would read all of it for each hold.
ANALYZE (SKIP_LOCKED) seat, event, tier;

-- name: count_seats(event)^
-- An expired hold's seat can be held now, so it counts as available.
SELECT count(*) FILTER (WHERE free) AS available, count(*) FILTER (WHERE state = 'HELD' AND NOT free) AS held,
       count(*) FILTER (WHERE state = 'PENDING_PAYMENT') AS pending_payment, count(*) FILTER (WHERE state = 'SOLD') AS sold,
       count(*) FILTER (WHERE state = 'BLOCKED') AS blocked
  FROM (SELECT state, state = 'AVAILABLE' OR state = 'HELD' AND hold_expires_at <= clock_timestamp() AS free
          FROM seat WHERE event_id = :event) s;
