-- name: seat_id_in_two_plans()^
-- A seat id belongs to two plans, so that a seat of one event could be held at another.
SELECT count(*) AS violations, (array_agg(seat_id::text ORDER BY seat_id))[ : 10] AS examples
FROM (
  SELECT seat_id
  FROM plan_row CROSS JOIN LATERAL generate_series(first_seat_id, first_seat_id + cardinality(numbers) - 1) AS seat_id
  GROUP BY seat_id HAVING count(*) > 1
) AS broken;

-- name: plan_not_covered_by_its_rows()^
-- The seats in a plan's rows are not exactly the block of ids that the plan took.
SELECT count(*) AS violations, (array_agg(plan_id::text ORDER BY plan_id))[ : 10] AS examples
FROM (
  SELECT plan_id
  FROM plan LEFT JOIN plan_row USING (plan_id)
  GROUP BY plan_id
  HAVING coalesce(sum(cardinality(numbers)), 0) <> upper(seat_ids) - lower(seat_ids)
    OR NOT bool_and(seat_ids @> int4range(first_seat_id, first_seat_id + cardinality(numbers)))
) AS broken;

-- name: seat_without_a_price()^
-- An event's plan has seats of a category that the event has no tier for.
SELECT count(*) AS violations, (array_agg(event_id::text ORDER BY event_id))[ : 10] AS examples
FROM (
  SELECT event_id
  FROM event JOIN plan USING (plan_id)
  CROSS JOIN LATERAL generate_subscripts(categories, 1) AS category
  WHERE NOT EXISTS (SELECT FROM tier WHERE tier.event_id = event.event_id AND tier.tier = category)
  GROUP BY event_id
) AS broken;

-- name: shown_event_without_tiers()^
-- An event is shown that has no prices at all.
SELECT count(*) AS violations, (array_agg(event_id::text ORDER BY event_id))[ : 10] AS examples
FROM event
WHERE published_time IS NOT NULL AND NOT EXISTS (SELECT FROM tier WHERE tier.event_id = event.event_id);
