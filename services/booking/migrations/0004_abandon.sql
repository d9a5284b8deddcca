-- Orders that wait too long for their payment.

-- When payments may next be asked to give the order up; NULL: it was not asked yet. Whoever is about to ask moves this
-- on, and that is its claim: it ends by this database's clock.
ALTER TABLE orders ADD COLUMN abandon_due_time timestamptz;

-- What waits for its payment. Orders that were never asked about come by their age; those that were, by the end of their
-- rest, so that some that stay undecided do not keep the others from being asked. It costs an order one entry when it is
-- made (its states are in another index's condition already, so their changes never were HOT updates), and a claim,
-- which is rare, another.
CREATE INDEX orders_pending ON orders (abandon_due_time, create_time) WHERE state = 'PENDING_PAYMENT';
