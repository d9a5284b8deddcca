-- What waits for its payment, by when payments may next be asked about it. Orders that were never asked about come by
-- their age; those that were, by the end of their rest, so that some that stay undecided do not keep the others from
-- being asked. An order that is paid in time has one entry of it, as before; only a claim, which is rare, now writes
-- another.
DROP INDEX orders_pending;
CREATE INDEX orders_pending ON orders (abandon_due_time, create_time) WHERE state = 'PENDING_PAYMENT';
