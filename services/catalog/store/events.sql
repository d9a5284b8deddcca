-- name: count_events_by_shard()
SELECT shard, count(*) AS events FROM event GROUP BY shard;

-- name: add_event(event_id, shard, request_id, name, performer, description, plan_id, start_time, sale_start_time, sale_end_time, currency_code, tickets_per_account, hold_seconds, onsale_hold_seconds, onsale_window_seconds, best_available_only, holds_per_account, no_resale, cancel_seconds, line, line_capacity)$
-- NULL when the request was heard before: that event stands as it is.
INSERT INTO event (
  event_id, shard, request_id, name, performer, description, plan_id, start_time, sale_start_time, sale_end_time,
  currency_code, tickets_per_account, hold_seconds, onsale_hold_seconds, onsale_window_seconds, best_available_only,
  holds_per_account, no_resale, cancel_seconds, line, line_capacity, search
)
SELECT
  :event_id::bigint, :shard, :request_id, :name::text, :performer::text, :description, :plan_id::bigint,
  :start_time::timestamptz, :sale_start_time::timestamptz, :sale_end_time::timestamptz, :currency_code,
  :tickets_per_account::int, :hold_seconds::int, :onsale_hold_seconds::int, :onsale_window_seconds::int,
  :best_available_only::boolean, :holds_per_account::int, :no_resale::boolean, :cancel_seconds::int, :line::boolean, :line_capacity::int,
  array_to_tsvector(fold_words(concat_ws(' ', :name::text, :performer::text, v.name, v.city)))
FROM plan JOIN venue v USING (venue_id) WHERE plan_id = :plan_id::bigint
ON CONFLICT ON CONSTRAINT event_is_made_once DO NOTHING
RETURNING event_id;

-- name: add_tiers(event_id, tiers, names, prices_minor, fees_minor, colors)!
INSERT INTO tier (event_id, tier, name, price_minor, fee_minor, color)
SELECT :event_id::bigint, tier, name, price_minor, fee_minor, color
FROM unnest(:tiers::smallint[], :names::text[], :prices_minor::bigint[], :fees_minor::bigint[], :colors::text[])
  AS t (tier, name, price_minor, fee_minor, color);

-- name: add_areas(event_id, area_ids, names, capacities, tiers)!
-- After the tiers, which they point at.
INSERT INTO area (event_id, area_id, name, capacity, tier)
SELECT :event_id::bigint, area_id, name, capacity, tier
FROM unnest(:area_ids::int[], :names::text[], :capacities::int[], :tiers::smallint[])
  AS a (area_id, name, capacity, tier);

-- name: get_event(event_id, shard)^
-- An id that names another shard than the event's is nobody's id.
SELECT * FROM whole_event WHERE event_id = :event_id AND shard = :shard;

-- name: get_event_by_request(request_id)^
SELECT * FROM whole_event WHERE request_id = :request_id;

-- name: list_events(words, city, date_from, date_to, after_time, after_id, page_size)
-- Published events, soonest first, from just after a position. The index is entered by time in UTC, a day wider than any
-- time zone is off; then the day is compared as the venue's calendar has it.
SELECT * FROM whole_event
WHERE published_time IS NOT NULL
  AND (start_time, event_id) > (:after_time::timestamptz, :after_id::bigint)
  AND start_time >= coalesce(:date_from::date - interval '1 day', clock_timestamp())
  AND (:date_from::date IS NULL OR (start_time AT TIME ZONE time_zone)::date >= :date_from::date)
  AND (:date_to::date IS NULL OR start_time < :date_to::date + interval '2 days')
  AND (:date_to::date IS NULL OR (start_time AT TIME ZONE time_zone)::date <= :date_to::date)
  AND (:city::text IS NULL OR city_folded = fold(:city::text))
  AND (:words::text IS NULL OR search @@ search_query(:words::text))
ORDER BY start_time, event_id
LIMIT :page_size;

-- name: list_line_policies(after_time, after_id, page_size)
-- Of published events whose sale is not over, soonest end first, from just after a position.
SELECT event_id, shard, version, line, line_capacity, sale_start_time, sale_end_time FROM event
WHERE published_time IS NOT NULL
  AND sale_end_time > clock_timestamp()
  AND (sale_end_time, event_id) > (:after_time::timestamptz, :after_id::bigint)
ORDER BY sale_end_time, event_id
LIMIT :page_size;

-- name: publish_event(event_id)!
-- Shows the event. Done again, it stays shown since when it was.
UPDATE event SET published_time = coalesce(published_time, clock_timestamp()) WHERE event_id = :event_id;
