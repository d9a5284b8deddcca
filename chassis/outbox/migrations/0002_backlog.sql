-- However much waits, was published, or is parked, a statement reads as much as it is for; see outbox.sql.

-- What a relay may claim, oldest first. Parked rows are not in it: what waits for a person must not lie in the way of
-- what goes on.
CREATE INDEX outbox_waiting ON outbox (sink, message_id) WHERE published_time IS NULL AND parked_time IS NULL;
DROP INDEX outbox_unpublished;

-- What waits for a person: hardly ever an entry. (+ 0, so that the primary key has not the same order: the planner would
-- sometimes read all that there is by that.)
CREATE INDEX outbox_parked ON outbox ((message_id + 0)) WHERE parked_time IS NOT NULL;

-- What may be deleted and what can be published again, also of many rows of one moment: in exactly the order of a batch,
-- so that nothing needs to be sorted.
CREATE INDEX outbox_published_in_order ON outbox (published_time, message_id) WHERE published_time IS NOT NULL;
DROP INDEX outbox_published;
