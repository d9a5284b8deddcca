-- name: create_order(account, hold, key, fingerprint, email, payment_token, grace)^
SELECT verdict, order_id, event_id
  FROM create_order(:account, :hold, :key, :fingerprint, :email, :payment_token, :grace);

-- name: create_orders(accounts, holds, keys, fingerprints, emails, payment_tokens, grace)^
SELECT order_id, event_id
  FROM create_orders(:accounts, :holds, :keys, :fingerprints, :emails, :payment_tokens, :grace);

-- name: record_payment_outcome(order, outcome, reason, grace)^
SELECT verdict, order_state, event_id, account FROM record_payment_outcome(:order, :outcome, :reason, :grace);

-- name: cancel_order(account, order)^
SELECT verdict, order_state FROM cancel_order(:account, :order);

-- name: get_order(order)^
SELECT order_id, event_id, account, hold_id, state, payment_state, tickets_state, failure_reason, create_time,
       currency_code, total_amount, fee_amount, ticket_count, seats, prices, sections, row_names, numbers, area_id,
       area_name, unit_price
  FROM order_view WHERE order_id = :order;

-- name: list_orders(account, before, most)
-- Newest first: ids are made in order of time.
SELECT order_id, event_id, account, hold_id, state, payment_state, tickets_state, failure_reason, create_time,
       currency_code, total_amount, fee_amount, ticket_count, seats, prices, sections, row_names, numbers, area_id,
       area_name, unit_price
  FROM order_view WHERE account = :account AND order_id < :before
 ORDER BY order_id DESC LIMIT :most;

-- name: list_event_orders(event, after, most)
SELECT o.order_id, o.account, o.state, o.payment_state, o.currency_code, o.total_amount, o.ticket_count AS quantity,
       ARRAY(SELECT b.seat_id FROM order_seat b WHERE b.order_id = o.order_id ORDER BY b.seat_id) AS seats,
       (SELECT count(*) FROM ticket t WHERE t.order_id = o.order_id) AS ticket_count
  FROM orders o WHERE o.event_id = :event AND o.order_id > :after
 ORDER BY o.order_id LIMIT :most;
