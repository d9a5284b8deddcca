-- name: allow_long_statements#
-- 200,000 seats take longer than a buyer's statement may.
SET LOCAL statement_timeout = '60s';

-- name: put_event(event, version, fingerprint, name, start, end, cap, hold_duration, onsale_hold_duration, onsale_window, selection_mode, holds_per_account, resale, cancel_end, focal_x, focal_y, currency)$
-- NULL when this version, or a later one, is known. The row's lock makes two hand-overs of one event take turns.
INSERT INTO event (event_id, version, fingerprint, name, sale_start_time, sale_end_time, tickets_per_account,
                   highest_tickets_per_account, hold_duration, onsale_hold_duration, onsale_end_time, selection_mode,
                   holds_per_account, resale, cancel_end_time, focal_x, focal_y, currency_code)
VALUES (:event, :version, :fingerprint, :name, :start, :end, :cap,
        :cap, :hold_duration, :onsale_hold_duration,
        CAST(:start AS timestamptz) + nullif(CAST(:onsale_window AS interval), interval '0'), :selection_mode,
        :holds_per_account, :resale, :cancel_end, :focal_x, :focal_y, :currency)
ON CONFLICT (event_id) DO UPDATE
   SET version = excluded.version, fingerprint = excluded.fingerprint, name = excluded.name,
       sale_start_time = excluded.sale_start_time, sale_end_time = excluded.sale_end_time,
       tickets_per_account = excluded.tickets_per_account,
       highest_tickets_per_account = greatest(event.highest_tickets_per_account, excluded.tickets_per_account),
       hold_duration = excluded.hold_duration, onsale_hold_duration = excluded.onsale_hold_duration,
       onsale_end_time = excluded.onsale_end_time,
       selection_mode = excluded.selection_mode, holds_per_account = excluded.holds_per_account,
       resale = excluded.resale, cancel_end_time = excluded.cancel_end_time, focal_x = excluded.focal_x,
       focal_y = excluded.focal_y, currency_code = excluded.currency_code
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

-- name: put_places(event, seats, section_indexes, row_indexes, places, x, y, accessible, companion)!
INSERT INTO seat_place AS p (event_id, seat_id, section_index, row_index, place, x, y, accessible, companion)
SELECT :event, n.seat_id, n.section_index, n.row_index, n.place, n.x, n.y, n.accessible, n.companion
  FROM unnest(CAST(:seats AS int[]), CAST(:section_indexes AS int[]), CAST(:row_indexes AS int[]),
              CAST(:places AS int[]), CAST(:x AS int[]), CAST(:y AS int[]), CAST(:accessible AS boolean[]),
              CAST(:companion AS boolean[]))
       n(seat_id, section_index, row_index, place, x, y, accessible, companion)
ON CONFLICT (event_id, seat_id) DO UPDATE
   SET section_index = excluded.section_index, row_index = excluded.row_index, place = excluded.place,
       x = excluded.x, y = excluded.y, accessible = excluded.accessible, companion = excluded.companion
 WHERE (p.section_index, p.row_index, p.place, p.x, p.y, p.accessible, p.companion) IS DISTINCT FROM
       (excluded.section_index, excluded.row_index, excluded.place, excluded.x, excluded.y, excluded.accessible,
        excluded.companion);

-- name: count_all_seats(event)$
SELECT count(*) FROM seat WHERE event_id = :event;

-- name: analyze_seats#
-- A plan that was made while the table was small would read all of it for each hold.
ANALYZE (SKIP_LOCKED) seat, seat_place, event, tier;

-- name: count_seats(event)^
-- An expired hold's seat can be held now, so it counts as available.
SELECT count(*) FILTER (WHERE free) AS available, count(*) FILTER (WHERE state = 'HELD' AND NOT free) AS held,
       count(*) FILTER (WHERE state = 'PENDING_PAYMENT') AS pending_payment, count(*) FILTER (WHERE state = 'SOLD') AS sold,
       count(*) FILTER (WHERE state = 'BLOCKED') AS blocked
  FROM (SELECT state, state = 'AVAILABLE' OR state = 'HELD' AND hold_expires_at <= clock_timestamp() AS free
          FROM seat WHERE event_id = :event) s;
