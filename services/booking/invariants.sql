-- Each query returns the rows that break a promise: none is good. The comment says what a row means.

-- name: seat_with_two_orders()
-- A seat is in two orders that are pending or confirmed.
SELECT b.event_id, b.seat_id FROM order_seat b JOIN orders o USING (order_id)
 WHERE o.state IN ('PENDING_PAYMENT', 'CONFIRMED') GROUP BY b.event_id, b.seat_id HAVING count(*) > 1;

-- name: order_without_its_seats()
-- A pending or confirmed order does not have all of its seats.
SELECT o.order_id FROM orders o JOIN order_seat b USING (order_id) LEFT JOIN seat s
    ON s.event_id = b.event_id AND s.seat_id = b.seat_id AND s.order_id = o.order_id
   AND s.state = CASE o.state WHEN 'CONFIRMED' THEN 'SOLD' ELSE 'PENDING_PAYMENT' END
 WHERE o.state IN ('PENDING_PAYMENT', 'CONFIRMED')
 GROUP BY o.order_id, o.seat_count HAVING count(s.seat_id) <> o.seat_count OR NOT bool_and(b.live);

-- name: seat_without_its_order()
-- A seat is taken by an order that is not pending or confirmed, or that it is no part of.
SELECT s.event_id, s.seat_id FROM seat s
 WHERE s.state IN ('PENDING_PAYMENT', 'SOLD') AND NOT EXISTS (
   SELECT FROM orders o JOIN order_seat b USING (order_id)
    WHERE o.order_id = s.order_id AND b.seat_id = s.seat_id AND b.event_id = s.event_id
      AND o.state = CASE s.state WHEN 'SOLD' THEN 'CONFIRMED' ELSE 'PENDING_PAYMENT' END);

-- name: held_seat_without_its_hold()
-- A seat is held for a hold that is not active, not of that seat, or ends at another time.
SELECT s.event_id, s.seat_id FROM seat s
 WHERE s.state = 'HELD' AND s.hold_expires_at > clock_timestamp() AND NOT EXISTS (
   SELECT FROM hold h WHERE h.hold_id = s.hold_id AND h.event_id = s.event_id AND s.seat_id = ANY (h.seats)
      AND h.state = 'ACTIVE' AND h.expires_at = s.hold_expires_at);

-- name: hold_without_its_seats()
-- An active hold does not have all of its seats.
SELECT h.hold_id FROM hold h
 WHERE h.state = 'ACTIVE' AND h.expires_at > clock_timestamp() AND cardinality(h.seats) <> (
   SELECT count(*) FROM seat s WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats)
      AND s.state = 'HELD' AND s.hold_id = h.hold_id);

-- name: hold_overdue()
-- A hold has been over for more than a minute and was not swept: its seats show as held though they can be had.
SELECT hold_id FROM hold WHERE NOT swept AND expires_at < clock_timestamp() - interval '1 minute';

-- name: account_over_its_cap()
-- An account has more live tickets at an event than the event allows.
SELECT u.event_id, u.account FROM (
  SELECT event_id, account, cardinality(seats) AS tickets FROM hold
   WHERE state = 'ACTIVE' AND expires_at > clock_timestamp()
   UNION ALL
  SELECT event_id, account, seat_count FROM orders WHERE state IN ('PENDING_PAYMENT', 'CONFIRMED')) u
  JOIN event e USING (event_id)
 GROUP BY u.event_id, u.account, e.tickets_per_account HAVING sum(u.tickets) > e.tickets_per_account;

-- name: confirmed_order_without_tickets()
-- An order was paid more than a minute ago and lacks a ticket.
SELECT o.order_id FROM orders o
 WHERE o.state = 'CONFIRMED' AND o.confirm_time < clock_timestamp() - interval '1 minute'
   AND o.seat_count <> (SELECT count(*) FROM ticket t WHERE t.order_id = o.order_id);

-- name: ticket_without_its_order()
-- A ticket opens the gate though its order is not confirmed.
SELECT t.ticket_id FROM ticket t JOIN orders o USING (order_id) WHERE t.state <> 'REVOKED' AND o.state <> 'CONFIRMED';

-- name: order_without_its_charge()
-- A pending order never asked for its charge.
SELECT o.order_id FROM orders o
 WHERE o.state = 'PENDING_PAYMENT' AND NOT EXISTS (
   SELECT FROM outbox m WHERE m.aggregate_id = CAST(o.order_id AS text) AND m.kind = 'charge');

-- name: outbox_parked()
-- A message was refused too often and waits for a person.
SELECT message_id FROM outbox WHERE parked_time IS NOT NULL AND published_time IS NULL;
