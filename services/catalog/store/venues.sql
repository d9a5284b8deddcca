-- name: get_venue_by_name(name)^
SELECT venue_id, name, city, country_code, time_zone FROM venue WHERE name_folded = fold(:name);

-- name: lock_venue_by_name(name)^
-- Keeps other imports of the venue waiting until this one is over, so that versions follow each other.
SELECT venue_id, name, city, country_code, time_zone FROM venue WHERE name_folded = fold(:name) FOR UPDATE;

-- name: add_venue(name, city, country_code, time_zone)!
-- Does nothing when a venue of that name is there: the caller reads it, and whoever came second waits here.
INSERT INTO venue (name, city, country_code, time_zone) VALUES (:name, :city, :country_code, :time_zone)
ON CONFLICT ON CONSTRAINT venue_has_a_name_of_its_own DO NOTHING;

-- name: is_time_zone(time_zone)$
SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = :time_zone);

-- name: get_plan_version(venue_id, digest)$
SELECT version FROM plan WHERE venue_id = :venue_id AND digest = :digest;

-- name: take_seat_ids(seats)$
SELECT take_seat_ids(:seats);

-- name: add_plan(venue_id, digest, width, height, focal_x, focal_y, categories, colors, first_seat_id, seats)^
-- The venue's row is locked, so the next version is nobody else's.
INSERT INTO plan (venue_id, version, digest, width, height, focal_x, focal_y, categories, colors, seat_ids)
SELECT
  :venue_id::bigint, 1 + coalesce(max(version), 0), :digest::bytea, :width::int, :height::int, :focal_x::int, :focal_y::int,
  :categories::text[], :colors::text[], int4range(:first_seat_id::int, :first_seat_id::int + :seats::int)
FROM plan WHERE venue_id = :venue_id::bigint
RETURNING plan_id, version;

-- name: list_venues()
-- Venues by name, with the newest version of their plan.
SELECT
  v.venue_id, v.name, v.city, v.country_code, v.time_zone, p.version,
  upper(p.seat_ids) - lower(p.seat_ids) AS seat_count, p.categories
FROM venue v
JOIN LATERAL (SELECT version, seat_ids, categories FROM plan WHERE plan.venue_id = v.venue_id ORDER BY version DESC LIMIT 1) p
  ON true
ORDER BY v.name, v.venue_id;

-- name: get_newest_plan(venue_id)^
-- The plan that a new event at the venue takes.
SELECT plan_id, version, categories, colors FROM plan WHERE venue_id = :venue_id ORDER BY version DESC LIMIT 1;

-- name: get_plan(plan_id)^
SELECT
  plan_id, venue_id, version, width, height, focal_x, focal_y, upper(seat_ids) - lower(seat_ids) AS seat_count
FROM plan WHERE plan_id = :plan_id;

-- name: list_plan_rows(plan_id)
SELECT section, row_name, first_seat_id, numbers, xs, ys, categories, accessible, companion
FROM plan_row WHERE plan_id = :plan_id ORDER BY ordinal;
