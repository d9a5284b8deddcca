-- name: take_lead(slot)$
-- One ingester for a slot. The lock ends with its connection, so a dead process leads nothing.
SELECT pg_try_advisory_lock(hashtextextended(:slot, 0));

-- name: get_slot(slot)^
SELECT confirmed_flush_lsn::text AS confirmed,
       coalesce(wal_status = 'lost' OR invalidation_reason IS NOT NULL, false) AS lost,
       pg_current_wal_flush_lsn()::text AS current
FROM pg_replication_slots
WHERE slot_name = :slot AND database = current_database();

-- name: probe_log()^
-- Everything that was visible at `read_time` was committed below `current`.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS read_time,
       pg_current_wal_flush_lsn()::text AS current;

-- name: list_seats()
-- In the order of the primary key, so that an event's seats come together.
SELECT event_id, seat_id, section, state FROM seat ORDER BY event_id, seat_id;

-- name: list_seats_of_event(event)
SELECT event_id, seat_id, section, state FROM seat WHERE event_id = :event ORDER BY seat_id;

-- name: list_events(most)
SELECT DISTINCT event_id FROM seat ORDER BY event_id LIMIT :most;
