-- Each query returns the rows that break a promise: none is good. The comment says what a row means. They read whole
-- tables: each of them once, whatever the statistics say, and not once for each row of another.

-- name: seat_with_two_orders()
-- A seat is in two orders that are pending or confirmed.
SELECT b.event_id, b.seat_id FROM order_seat b JOIN orders o USING (order_id)
 WHERE o.state IN ('PENDING_PAYMENT', 'CONFIRMED') GROUP BY b.event_id, b.seat_id HAVING count(*) > 1;

-- name: order_without_its_seats()
-- A pending or confirmed order does not have all of its seats.
SELECT o.order_id FROM orders o LEFT JOIN order_seat b USING (order_id) LEFT JOIN seat s
    ON s.event_id = b.event_id AND s.seat_id = b.seat_id AND s.order_id = o.order_id
   AND s.state = CASE o.state WHEN 'CONFIRMED' THEN 'SOLD' ELSE 'PENDING_PAYMENT' END
 WHERE o.state IN ('PENDING_PAYMENT', 'CONFIRMED') AND o.area_id IS NULL
 GROUP BY o.order_id, o.ticket_count HAVING count(s.seat_id) <> o.ticket_count OR NOT bool_and(b.live);

-- name: seat_without_its_order()
-- A seat is taken by an order that is not pending or confirmed, or that it is no part of.
SELECT s.event_id, s.seat_id FROM seat s
 WHERE s.state IN ('PENDING_PAYMENT', 'SOLD') AND NOT EXISTS (
   SELECT FROM orders o JOIN order_seat b USING (order_id)
    WHERE o.order_id = s.order_id AND b.seat_id = s.seat_id AND b.event_id = s.event_id
      AND o.state = CASE s.state WHEN 'SOLD' THEN 'CONFIRMED' ELSE 'PENDING_PAYMENT' END);

-- name: ended_order_keeps_a_seat()
-- An order that failed or was cancelled still bars a seat from being sold.
SELECT b.order_id, b.seat_id FROM order_seat b JOIN orders o USING (order_id)
 WHERE b.live AND o.state NOT IN ('PENDING_PAYMENT', 'CONFIRMED');

-- name: held_seat_without_its_hold()
-- A seat is held for a hold that is not active, not of that seat, or ends at another time.
SELECT s.event_id, s.seat_id FROM seat s
 WHERE s.state = 'HELD' AND s.hold_expires_at > clock_timestamp() AND NOT EXISTS (
   SELECT FROM hold h WHERE h.hold_id = s.hold_id AND h.event_id = s.event_id AND s.seat_id = ANY (h.seats)
      AND h.state = 'ACTIVE' AND h.expires_at = s.hold_expires_at);

-- name: held_seat_that_nobody_sweeps()
-- A seat's hold was swept, so that its time will run out and it shows as held for ever.
SELECT s.event_id, s.seat_id FROM seat s
 WHERE s.state = 'HELD' AND NOT EXISTS (SELECT FROM hold h WHERE h.hold_id = s.hold_id AND NOT h.swept);

-- name: hold_without_its_seats()
-- An active hold does not have all of its seats.
SELECT h.hold_id FROM hold h
 WHERE h.state = 'ACTIVE' AND h.expires_at > clock_timestamp() AND cardinality(h.seats) <> (
   SELECT count(*) FROM seat s WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats)
      AND s.state = 'HELD' AND s.hold_id = h.hold_id);

-- name: hold_and_order_disagree()
-- A hold became an order and there is none, or there is one and the hold is not that far.
SELECT coalesce(h.hold_id, o.hold_id) AS hold_id FROM hold h FULL JOIN orders o ON o.hold_id = h.hold_id
 WHERE (h.state = 'CONFIRMED' AND o.order_id IS NULL) OR (o.order_id IS NOT NULL AND h.state <> 'CONFIRMED');

-- name: area_units_do_not_add_up()
-- What an area's counters say, and what holds and orders have taken from it, is not its capacity.
SELECT u.event_id, u.area_id FROM (
  SELECT event_id, area_id, capacity AS units FROM area
   UNION ALL
  SELECT event_id, area_id, - available FROM area_counter
   UNION ALL
  SELECT event_id, area_id, - ticket_count FROM hold WHERE area_id IS NOT NULL AND NOT swept
   UNION ALL
  SELECT event_id, area_id, - ticket_count FROM orders WHERE area_id IS NOT NULL AND counters IS NOT NULL) u
 GROUP BY u.event_id, u.area_id HAVING sum(u.units) <> 0;

-- name: area_oversold()
-- More of an area is in live holds and in orders than it has.
SELECT u.event_id, u.area_id FROM (
  SELECT event_id, area_id, capacity AS units FROM area
   UNION ALL
  SELECT event_id, area_id, - ticket_count FROM hold
   WHERE area_id IS NOT NULL AND state = 'ACTIVE' AND expires_at > clock_timestamp()
   UNION ALL
  SELECT event_id, area_id, - ticket_count FROM orders
   WHERE area_id IS NOT NULL AND state IN ('PENDING_PAYMENT', 'CONFIRMED')) u
 GROUP BY u.event_id, u.area_id HAVING sum(u.units) < 0;

-- name: units_from_nowhere()
-- A hold or an order names counters that do not give as many units as it has.
SELECT u.event_id, u.hold_id FROM (
  SELECT event_id, hold_id, ticket_count, amounts FROM hold WHERE area_id IS NOT NULL
   UNION ALL
  SELECT event_id, hold_id, ticket_count, amounts FROM orders WHERE counters IS NOT NULL) u
 WHERE u.ticket_count <> (SELECT sum(q.amount) FROM unnest(u.amounts) q(amount));

-- name: units_of_an_ended_hold()
-- A hold of an area has ended and its units were neither given back nor taken by an order.
SELECT hold_id FROM hold WHERE area_id IS NOT NULL AND state <> 'ACTIVE' AND NOT swept;

-- name: hold_overdue()
-- A hold has been over for more than a minute and was not swept: what it had shows as held though it can be had.
SELECT hold_id FROM hold WHERE NOT swept AND expires_at < clock_timestamp() - interval '1 minute';

-- name: account_over_its_cap()
-- An account has more live tickets at an event than any version of the event allowed. (A hold in its grace shows here once
-- it is an order: how long the grace is, only the service knows.)
SELECT u.event_id, u.account FROM (
  SELECT event_id, account, ticket_count FROM hold WHERE state = 'ACTIVE' AND expires_at > clock_timestamp()
   UNION ALL
  SELECT event_id, account, ticket_count FROM orders WHERE state IN ('PENDING_PAYMENT', 'CONFIRMED')) u
  JOIN event e USING (event_id)
 GROUP BY u.event_id, u.account, e.highest_tickets_per_account
HAVING sum(u.ticket_count) > e.highest_tickets_per_account;

-- name: order_total_is_not_its_prices()
-- An order charges something else than what was priced when it was held.
SELECT o.order_id FROM orders o
 WHERE o.total_amount <> CASE
   WHEN o.area_id IS NULL THEN (SELECT coalesce(sum(b.price + b.fee), 0) FROM order_seat b WHERE b.order_id = o.order_id)
   ELSE (o.unit_price + o.unit_fee) * o.ticket_count END;

-- name: confirmed_order_without_tickets()
-- An order was paid more than a minute ago and lacks a ticket.
SELECT o.order_id FROM orders o
 WHERE o.state = 'CONFIRMED' AND o.confirm_time < clock_timestamp() - interval '1 minute'
   AND o.ticket_count <> (SELECT count(*) FROM ticket t WHERE t.order_id = o.order_id);

-- name: ticket_without_its_order()
-- A ticket opens the gate though its order is not confirmed.
SELECT t.ticket_id FROM ticket t JOIN orders o USING (order_id) WHERE t.state <> 'REVOKED' AND o.state <> 'CONFIRMED';

-- name: revoked_ticket_of_a_confirmed_order()
-- A ticket was revoked and its order stands.
SELECT t.ticket_id FROM ticket t JOIN orders o USING (order_id) WHERE t.state = 'REVOKED' AND o.state = 'CONFIRMED';

-- name: order_without_its_charge()
-- A pending order never asked for its charge. (Of the last six days: what was published is remembered for seven.)
SELECT o.order_id FROM orders o
 WHERE o.state = 'PENDING_PAYMENT' AND o.create_time > clock_timestamp() - interval '6 days' AND NOT EXISTS (
   SELECT FROM outbox m WHERE m.sink = 'payments' AND m.aggregate_id = CAST(o.order_id AS text) AND m.kind = 'charge');

-- name: order_past_its_bound()
-- An order has been pending for more than an hour: it was to be paid, or abandoned and compensated, long ago.
SELECT order_id FROM orders WHERE state = 'PENDING_PAYMENT' AND create_time < clock_timestamp() - interval '1 hour';

-- name: refund_not_owed()
-- Money is owed back for an order that stands, or another amount than was paid.
SELECT r.order_id FROM refund_due r JOIN orders o USING (order_id)
 WHERE o.state NOT IN ('CANCELLED', 'FAILED') OR o.payment_state <> 'SUCCEEDED' OR r.amount <> o.total_amount
    OR r.currency <> o.currency_code;

-- name: paid_order_that_ended_without_a_refund()
-- An order was paid, it does not stand, and nobody knows that the money is owed back.
SELECT o.order_id FROM orders o
 WHERE o.state IN ('CANCELLED', 'FAILED') AND o.payment_state = 'SUCCEEDED'
   AND NOT EXISTS (SELECT FROM refund_due r WHERE r.order_id = o.order_id);

-- name: outbox_parked()
-- A message was refused too often and waits for a person.
SELECT message_id, sink FROM outbox WHERE published_time IS NULL AND parked_time IS NOT NULL;

-- name: outbox_undelivered()
-- A message has waited for more than five minutes. (The stream of orders may have no relay: then nobody claims any.)
SELECT message_id, sink FROM outbox
 WHERE published_time IS NULL AND parked_time IS NULL AND due_time < clock_timestamp() - interval '5 minutes'
   AND (sink <> 'booking.orders' OR claim_number > 0);
