-- Each statement reads as much as it is for, however much waits and however much was published, also by a plan that a
-- session kept from when there was next to nothing. (A claim also passes older ones that rest, or are behind a parked
-- one.) The roles of its services forbid the planner what reads whole tables (a migration of each says how); the rest is
-- in the form: where rows are found by their ids, what else must be true of them is said in words that no partial index
-- is defined by (num_nonnulls, not IS NULL), lest one be read to its end.

-- name: put(sink, aggregate_id, kind, payload)!
-- In the transaction that decides.
INSERT INTO outbox (sink, aggregate_id, kind, payload) VALUES (:sink, :aggregate_id, :kind, CAST(:payload AS jsonb));

-- name: claim(sink, most, seconds)
-- The first unpublished message of each aggregate, so that order is kept; rows that another relay is claiming are
-- passed over. Committed before anything happens outside. ARRAY(…) is run once; the planner may run IN (…) again and
-- again, and claim more than was asked for. (min and not NOT EXISTS: that may become a join with all that waits. BETWEEN
-- and not =: with one sink the primary key gives the same order, and all that was published lies in its way.)
UPDATE outbox SET claimed_until = clock_timestamp() + :seconds * interval '1 second', claim_number = claim_number + 1
 WHERE message_id = ANY (ARRAY(
   SELECT message_id FROM outbox o
    WHERE sink BETWEEN :sink AND :sink AND published_time IS NULL AND parked_time IS NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
      AND o.message_id = (SELECT min(first.message_id) FROM outbox first
                           WHERE first.aggregate_id = o.aggregate_id AND first.sink = o.sink
                             AND first.published_time IS NULL)
    ORDER BY sink, message_id LIMIT :most FOR NO KEY UPDATE SKIP LOCKED))
RETURNING message_id, claim_number, aggregate_id, kind, CAST(payload AS text) AS payload;

-- name: publish(message_ids, claim_numbers)!
-- They were delivered. A row that is another relay's by now is left to that one, and delivered twice.
UPDATE outbox SET published_time = clock_timestamp(), claimed_until = NULL
 WHERE message_id = ANY (CAST(:message_ids AS bigint[]))
   AND claim_number = (CAST(:claim_numbers AS int[]))[array_position(CAST(:message_ids AS bigint[]), message_id)]
   AND num_nonnulls(published_time, parked_time) = 0;

-- name: postpone(message_ids, claim_numbers, seconds)!
-- The sink is away. They rest, with jitter, and no try is spent.
UPDATE outbox SET claimed_until = clock_timestamp() + :seconds * (0.5 + random() / 2) * interval '1 second'
 WHERE message_id = ANY (CAST(:message_ids AS bigint[]))
   AND claim_number = (CAST(:claim_numbers AS int[]))[array_position(CAST(:message_ids AS bigint[]), message_id)]
   AND num_nonnulls(published_time) = 0;

-- name: refuse(message_id, claim_number, refusal, most_refusals, first_rest, longest_rest)<!
-- The sink refused this row. It rests twice as long after each refusal, with jitter; after the last it is parked.
UPDATE outbox
   SET refusals = refusals + 1, last_refusal = :refusal,
       claimed_until = CASE WHEN refusals + 1 < :most_refusals THEN clock_timestamp()
         + least(:longest_rest, :first_rest * 2 ^ refusals) * (0.5 + random() / 2) * interval '1 second' END,
       parked_time = CASE WHEN refusals + 1 >= :most_refusals THEN clock_timestamp() END
 WHERE message_id = :message_id AND claim_number = :claim_number AND num_nonnulls(published_time) = 0
RETURNING parked_time IS NOT NULL;

-- name: measure()
-- What waits, and what waits for a person, by sink: the one statement that reads all of that, for it counts it.
SELECT sink, CAST(sum(waiting) AS bigint) AS waiting, CAST(sum(parked) AS bigint) AS parked,
       CAST(coalesce(extract(epoch FROM clock_timestamp() - min(due_time)), 0) AS float8) AS oldest_seconds
  FROM (SELECT sink, 1 AS waiting, 0 AS parked, due_time FROM outbox
         WHERE published_time IS NULL AND parked_time IS NULL
         UNION ALL
        SELECT sink, 0, 1, NULL FROM outbox WHERE parked_time IS NOT NULL) q
 GROUP BY sink;

-- name: delete_published(keep_seconds, most)!
-- One bounded statement; rows that another is deleting, or that are being published again, are passed over. (now(), for
-- only what stands still during a statement can bound the index.)
DELETE FROM outbox WHERE message_id = ANY (ARRAY(
  SELECT message_id FROM outbox WHERE published_time < now() - :keep_seconds * interval '1 second'
   ORDER BY published_time, message_id LIMIT :most FOR UPDATE SKIP LOCKED));

-- name: delete_unread(sink, keep_seconds, most)!
-- Messages to a sink that has no relay. What a relay ever claimed is not among them: somewhere there is one. (The oldest
-- are looked at, so that it reads no more than it may delete; only what is too old is locked.)
DELETE FROM outbox WHERE message_id = ANY (ARRAY(
  SELECT message_id FROM outbox
   WHERE message_id = ANY (ARRAY(
     SELECT message_id FROM (
       SELECT message_id, created_time FROM outbox
        WHERE sink BETWEEN :sink AND :sink AND published_time IS NULL AND parked_time IS NULL AND claim_number = 0
        ORDER BY sink, message_id LIMIT :most) oldest
      WHERE created_time < clock_timestamp() - :keep_seconds * interval '1 second'))
     AND claim_number = 0 AND num_nonnulls(published_time, parked_time) = 0
     FOR UPDATE SKIP LOCKED));

-- name: list_messages(after, most)
-- All but the payload: there may be a payment token in it. A page of each sink that has something waiting, found one
-- after the other, and of what is parked: the first of all those are a page.
WITH RECURSIVE sinks AS (
  (SELECT sink FROM outbox WHERE published_time IS NULL AND parked_time IS NULL ORDER BY sink LIMIT 1)
  UNION ALL
  SELECT (SELECT o.sink FROM outbox o WHERE o.published_time IS NULL AND o.parked_time IS NULL AND o.sink > sinks.sink
           ORDER BY o.sink LIMIT 1)
    FROM sinks WHERE sink IS NOT NULL
)
SELECT m.* FROM (
  SELECT w.* FROM sinks CROSS JOIN LATERAL (
    SELECT message_id, sink, aggregate_id, kind, created_time, refusals, coalesce(last_refusal, '') AS last_refusal,
           parked_time
      FROM outbox o
     WHERE published_time IS NULL AND parked_time IS NULL AND o.sink <= sinks.sink
       AND (o.sink, message_id) > (sinks.sink, CAST(:after AS bigint))
     ORDER BY o.sink, message_id LIMIT :most) w
   UNION ALL
  (SELECT message_id, sink, aggregate_id, kind, created_time, refusals, coalesce(last_refusal, ''), parked_time
     FROM outbox
    WHERE parked_time IS NOT NULL AND message_id + 0 > CAST(:after AS bigint)
    ORDER BY message_id + 0 LIMIT :most)) m
 ORDER BY message_id LIMIT :most;

-- name: list_parked(after, most)
-- As above, what waits for a person alone. (+ 0 as in the index, which is the only one that has this order.)
SELECT message_id, sink, aggregate_id, kind, created_time, refusals, coalesce(last_refusal, '') AS last_refusal,
       parked_time
  FROM outbox
 WHERE parked_time IS NOT NULL AND message_id + 0 > CAST(:after AS bigint)
 ORDER BY message_id + 0 LIMIT :most;

-- name: retry_message(message_id)!
-- With all its tries again.
UPDATE outbox SET parked_time = NULL, claimed_until = NULL, refusals = 0, due_time = clock_timestamp()
 WHERE message_id = :message_id AND parked_time IS NOT NULL;

-- name: drop_message(message_id)^
DELETE FROM outbox WHERE message_id = :message_id AND parked_time IS NOT NULL RETURNING sink, aggregate_id, kind;

-- name: now()$
SELECT clock_timestamp();

-- name: republish(sink, start_time, asked_time, after_time, after_id, most)^
-- A batch: the next rows behind a position that were published before asked_time, of any sink, so that a batch reads no
-- more than it is large. Of those for the sink that were written since start_time, how many are published again; how
-- many rows there were, and the position of the last. What goes out meanwhile does not come round again, and what
-- another has locked is being published again, or deleted, by that one.
WITH batch AS MATERIALIZED (
  SELECT message_id, published_time, sink = :sink AND created_time >= :start_time AS wanted FROM outbox
   WHERE published_time < :asked_time
     AND (published_time, message_id) > (CAST(:after_time AS timestamptz), CAST(:after_id AS bigint))
   ORDER BY published_time, message_id LIMIT :most
), again AS (
  UPDATE outbox SET published_time = NULL, refusals = 0, due_time = clock_timestamp()
   WHERE message_id = ANY (ARRAY(
     SELECT message_id FROM outbox
      WHERE message_id = ANY (ARRAY(SELECT message_id FROM batch WHERE wanted))
        AND coalesce(published_time < :asked_time, false)
        FOR NO KEY UPDATE SKIP LOCKED))
  RETURNING message_id
)
SELECT (SELECT count(*) FROM again) AS messages, count(*) AS rows, max(published_time) AS last_time,
       (array_agg(message_id ORDER BY published_time DESC, message_id DESC))[1] AS last_id
  FROM batch;
