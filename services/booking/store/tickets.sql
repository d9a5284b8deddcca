-- name: issue_tickets(most)$
-- Issues the tickets of confirmed orders that lack them, one for each seat or unit; how many orders. It is the issuer and the retry: run twice, it
-- finds nothing the second time, and two that run at once pass over each other's orders.
WITH due AS (
  SELECT order_id, event_id, area_id, ticket_count FROM orders
   WHERE state = 'CONFIRMED' AND ticket_time IS NULL
   ORDER BY confirm_time LIMIT :most FOR NO KEY UPDATE SKIP LOCKED
), issued AS (
  INSERT INTO ticket (ticket_id, order_id, seat_id, sequence, event_id, create_time)
  SELECT uuidv7(), u.order_id, u.seat_id, u.sequence, u.event_id, clock_timestamp() FROM (
    SELECT b.order_id, b.seat_id, CAST(NULL AS int) AS sequence, b.event_id FROM due JOIN order_seat b USING (order_id)
     UNION ALL
    SELECT due.order_id, NULL, generate_series(1, due.ticket_count), due.event_id FROM due WHERE due.area_id IS NOT NULL) u
  ON CONFLICT DO NOTHING
), marked AS (
  UPDATE orders o SET ticket_time = clock_timestamp() FROM due WHERE o.order_id = due.order_id RETURNING 1
)
SELECT count(*) FROM marked;

-- name: list_tickets(order)
SELECT t.ticket_id, t.order_id, t.event_id, t.state, t.seat_id, s.section, s.row_name, s.number, b.price, o.currency_code,
       o.area_id, a.name AS area_name, o.unit_price
  FROM ticket t
  JOIN orders o USING (order_id)
  LEFT JOIN order_seat b USING (order_id, seat_id)
  LEFT JOIN seat s ON s.event_id = t.event_id AND s.seat_id = t.seat_id
  LEFT JOIN area a ON a.event_id = o.event_id AND a.area_id = o.area_id
 WHERE t.order_id = :order ORDER BY t.seat_id, t.sequence;
