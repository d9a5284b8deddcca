-- name: claim_overdue_orders(bound, rest, most)
-- Who has waited longest first, since the order became too old or since its rest ended: it is a queue, and those whom
-- nobody can decide yet go to its end. (Two parts, for what was never asked about is found by its age and the others
-- by their rest, and each reads no more of the index than it takes.)
-- Moving abandon_due_time is the claim; rows that another is at are passed over. (An array, not IN: the planner may run
-- a sub-select of IN more than once, and each run would lock another batch.) now() and not clock_timestamp(): only what
-- stands still during a statement can bound the index. It is a little older, and so an order is never given up early.
UPDATE orders SET abandon_due_time = clock_timestamp() + CAST(:rest AS interval)
 WHERE order_id = ANY (ARRAY(
   SELECT q.order_id FROM (
     SELECT n.order_id, n.due_time FROM (
       SELECT order_id, create_time + CAST(:bound AS interval) AS due_time FROM orders
        WHERE state = 'PENDING_PAYMENT' AND abandon_due_time IS NULL AND create_time <= now() - CAST(:bound AS interval)
        ORDER BY abandon_due_time, create_time LIMIT :most FOR NO KEY UPDATE SKIP LOCKED) n
      UNION ALL
     SELECT a.order_id, a.due_time FROM (
       SELECT order_id, abandon_due_time AS due_time FROM orders
        WHERE state = 'PENDING_PAYMENT' AND abandon_due_time <= now() AND create_time <= now() - CAST(:bound AS interval)
        ORDER BY abandon_due_time LIMIT :most FOR NO KEY UPDATE SKIP LOCKED) a) q
    ORDER BY q.due_time LIMIT :most))
RETURNING order_id;
