-- name: claim_overdue_orders(bound, rest, most)
-- Moving abandon_due_time is the claim; rows that another is at are passed over. (An array, not IN: the planner may run
-- a sub-select of IN more than once, and each run would lock another batch.) now() and not clock_timestamp(): only what
-- stands still during a statement can bound the index. It is a little older, and so an order is never given up early.
UPDATE orders SET abandon_due_time = clock_timestamp() + CAST(:rest AS interval)
 WHERE order_id = ANY (ARRAY(
   SELECT order_id FROM orders
    WHERE state = 'PENDING_PAYMENT' AND create_time <= now() - CAST(:bound AS interval)
      AND (abandon_due_time IS NULL OR abandon_due_time <= clock_timestamp())
    ORDER BY create_time LIMIT :most FOR NO KEY UPDATE SKIP LOCKED))
RETURNING order_id;
