-- name: hold_area(event, account, key, fingerprint, area, quantity, grace, all)^
SELECT verdict, hold_id, used, few, retry_time
  FROM hold_area(:event, :account, :key, :fingerprint, :area, :quantity, :grace, :all);

-- name: get_sale(event)^
SELECT sale_start_time, sale_end_time, tickets_per_account FROM event WHERE event_id = :event;

-- name: sweep_area_holds(most, grace)$
SELECT sweep_area_holds(:most, :grace);

-- name: lock_areas(event)!
-- Two versions of one event take turns at its row; this is against holds, which lock counters ascending.
SELECT FROM area_counter WHERE event_id = :event ORDER BY area_id, counter FOR NO KEY UPDATE;

-- name: get_areas(event)
SELECT a.area_id, a.capacity, sum(c.available) AS available, count(*) AS counters
  FROM area a JOIN area_counter c USING (event_id, area_id)
 WHERE a.event_id = :event GROUP BY a.event_id, a.area_id;

-- name: put_areas(event, areas, names, capacities, tiers)!
INSERT INTO area (event_id, area_id, name, capacity, tier)
SELECT :event, n.area_id, n.name, n.capacity, n.tier
  FROM unnest(CAST(:areas AS int[]), CAST(:names AS text[]), CAST(:capacities AS int[]), CAST(:tiers AS int[]))
       n(area_id, name, capacity, tier)
ON CONFLICT (event_id, area_id) DO UPDATE SET name = excluded.name, capacity = excluded.capacity, tier = excluded.tier;

-- name: put_counters(event, areas, counters, availables)!
INSERT INTO area_counter (event_id, area_id, counter, available)
SELECT :event, n.area_id, n.counter, n.available
  FROM unnest(CAST(:areas AS int[]), CAST(:counters AS int[]), CAST(:availables AS int[])) n(area_id, counter, available)
ON CONFLICT (event_id, area_id, counter) DO UPDATE SET available = excluded.available;

-- name: count_areas(event)
-- Units by what has them, at one moment. An expired hold's units can be held now, so they count as available.
-- The event's orders are read once, and not once for each area.
WITH o AS MATERIALIZED (
  SELECT area_id, sum(ticket_count) FILTER (WHERE state = 'PENDING_PAYMENT') AS pending_payment,
         sum(ticket_count) FILTER (WHERE state = 'CONFIRMED') AS sold,
         -- A cancelled order that still names its counters has not given its units back, and never will.
         sum(ticket_count) FILTER (WHERE state = 'CANCELLED' AND counters IS NOT NULL) AS blocked
    FROM orders WHERE event_id = :event AND area_id IS NOT NULL GROUP BY area_id)
SELECT a.area_id,
       (SELECT sum(c.available) FROM area_counter c WHERE c.event_id = a.event_id AND c.area_id = a.area_id)
         + h.expired AS available,
       h.held, coalesce(o.pending_payment, 0) AS pending_payment, coalesce(o.sold, 0) AS sold,
       coalesce(o.blocked, 0) AS blocked
  FROM area a
  LEFT JOIN o ON o.area_id = a.area_id
 CROSS JOIN LATERAL (
   SELECT coalesce(sum(ticket_count) FILTER (WHERE expires_at <= clock_timestamp()), 0) AS expired,
          coalesce(sum(ticket_count) FILTER (WHERE expires_at > clock_timestamp()), 0) AS held
     FROM hold WHERE event_id = a.event_id AND area_id = a.area_id AND NOT swept) h
 WHERE a.event_id = :event ORDER BY a.area_id;
