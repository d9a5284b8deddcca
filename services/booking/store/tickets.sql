-- name: issue_tickets(most)$
-- Issues the tickets of confirmed orders that lack them; how many orders. It is the issuer and the retry: run twice, it
-- finds nothing the second time, and two that run at once pass over each other's orders.
WITH due AS (
  SELECT order_id, event_id FROM orders
   WHERE state = 'CONFIRMED' AND ticket_time IS NULL
   ORDER BY confirm_time LIMIT :most FOR NO KEY UPDATE SKIP LOCKED
), issued AS (
  INSERT INTO ticket (ticket_id, order_id, seat_id, event_id, create_time)
  SELECT uuidv7(), b.order_id, b.seat_id, b.event_id, clock_timestamp() FROM due JOIN order_seat b USING (order_id)
  ON CONFLICT ON CONSTRAINT a_ticket_per_seat_of_an_order DO NOTHING
), marked AS (
  UPDATE orders o SET ticket_time = clock_timestamp() FROM due WHERE o.order_id = due.order_id RETURNING 1
)
SELECT count(*) FROM marked;

-- name: list_tickets(order)
SELECT t.ticket_id, t.order_id, t.event_id, t.state, t.seat_id, s.section, s.row_name, s.number, b.price, o.currency_code
  FROM ticket t
  JOIN orders o USING (order_id)
  JOIN order_seat b USING (order_id, seat_id)
  JOIN seat s ON s.event_id = t.event_id AND s.seat_id = t.seat_id
 WHERE t.order_id = :order ORDER BY t.seat_id;
