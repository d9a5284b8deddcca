-- name: put(sink, aggregate_id, kind, payload)!
-- In the transaction that decides.
INSERT INTO outbox (sink, aggregate_id, kind, payload) VALUES (:sink, :aggregate_id, :kind, CAST(:payload AS jsonb));

-- name: claim(sink, most, seconds)
-- The first unpublished message of each aggregate, so that order is kept; rows that another relay is claiming are
-- passed over. Committed before anything happens outside. ARRAY(…) is run once; the planner may run IN (…) again and
-- again, and claim more than was asked for. (min and not NOT EXISTS: that may become a join with all that waits.)
UPDATE outbox SET claimed_until = clock_timestamp() + :seconds * interval '1 second', claim_number = claim_number + 1
 WHERE message_id = ANY (ARRAY(
   SELECT message_id FROM outbox o
    WHERE sink = :sink AND published_time IS NULL AND parked_time IS NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
      AND o.message_id = (SELECT min(first.message_id) FROM outbox first
                           WHERE first.aggregate_id = o.aggregate_id AND first.sink = o.sink
                             AND first.published_time IS NULL)
    ORDER BY message_id LIMIT :most FOR NO KEY UPDATE SKIP LOCKED))
RETURNING message_id, claim_number, aggregate_id, kind, CAST(payload AS text) AS payload;

-- name: publish(message_ids, claim_numbers)!
-- They were delivered. A row that is another relay's by now is left to that one, and delivered twice.
UPDATE outbox o SET published_time = clock_timestamp(), claimed_until = NULL
  FROM unnest(CAST(:message_ids AS bigint[]), CAST(:claim_numbers AS int[])) AS c(message_id, claim_number)
 WHERE o.message_id = c.message_id AND o.claim_number = c.claim_number
   AND o.published_time IS NULL AND o.parked_time IS NULL;

-- name: postpone(message_ids, claim_numbers, seconds)!
-- The sink is away. They rest, with jitter, and no try is spent.
UPDATE outbox o SET claimed_until = clock_timestamp() + :seconds * (0.5 + random() / 2) * interval '1 second'
  FROM unnest(CAST(:message_ids AS bigint[]), CAST(:claim_numbers AS int[])) AS c(message_id, claim_number)
 WHERE o.message_id = c.message_id AND o.claim_number = c.claim_number AND o.published_time IS NULL;

-- name: refuse(message_id, claim_number, refusal, most_refusals, first_rest, longest_rest)<!
-- The sink refused this row. It rests twice as long after each refusal, with jitter; after the last it is parked.
UPDATE outbox
   SET refusals = refusals + 1, last_refusal = :refusal,
       claimed_until = CASE WHEN refusals + 1 < :most_refusals THEN clock_timestamp()
         + least(:longest_rest, :first_rest * 2 ^ refusals) * (0.5 + random() / 2) * interval '1 second' END,
       parked_time = CASE WHEN refusals + 1 >= :most_refusals THEN clock_timestamp() END
 WHERE message_id = :message_id AND claim_number = :claim_number AND published_time IS NULL
RETURNING parked_time IS NOT NULL;

-- name: measure()
-- What waits, and what waits for a person, by sink.
SELECT sink, count(*) FILTER (WHERE parked_time IS NULL) AS waiting,
       count(*) FILTER (WHERE parked_time IS NOT NULL) AS parked,
       CAST(coalesce(extract(epoch FROM clock_timestamp() - min(due_time) FILTER (WHERE parked_time IS NULL)), 0)
            AS float8) AS oldest_seconds
  FROM outbox WHERE published_time IS NULL GROUP BY sink;

-- name: delete_published(keep_seconds, most)!
-- One bounded statement; rows that another is deleting, or that are being published again, are passed over. (now(), for
-- only what stands still during a statement can bound the index.)
DELETE FROM outbox WHERE message_id = ANY (ARRAY(
  SELECT message_id FROM outbox WHERE published_time < now() - :keep_seconds * interval '1 second'
   ORDER BY published_time LIMIT :most FOR UPDATE SKIP LOCKED));

-- name: delete_unread(sinks, keep_seconds, most)!
-- Messages to a sink that has no relay. What a relay ever claimed is not among them: somewhere there is one.
DELETE FROM outbox WHERE message_id = ANY (ARRAY(
  SELECT message_id FROM outbox
   WHERE sink = ANY (:sinks) AND published_time IS NULL AND parked_time IS NULL AND claim_number = 0
     AND created_time < clock_timestamp() - :keep_seconds * interval '1 second'
   ORDER BY message_id LIMIT :most FOR UPDATE SKIP LOCKED));

-- name: list_messages(after, parked, most)
-- All but the payload: there may be a payment token in it.
SELECT message_id, sink, aggregate_id, kind, created_time, refusals, coalesce(last_refusal, '') AS last_refusal,
       parked_time
  FROM outbox
 WHERE published_time IS NULL AND message_id > :after AND (parked_time IS NOT NULL OR NOT :parked)
 ORDER BY message_id LIMIT :most;

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
      WHERE message_id = ANY (ARRAY(SELECT message_id FROM batch WHERE wanted)) AND published_time < :asked_time
        FOR NO KEY UPDATE SKIP LOCKED))
  RETURNING message_id
)
SELECT (SELECT count(*) FROM again) AS messages, count(*) AS rows, max(published_time) AS last_time,
       (array_agg(message_id ORDER BY published_time DESC, message_id DESC))[1] AS last_id
  FROM batch;
