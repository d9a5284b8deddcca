-- name: put(sink, aggregate_id, kind, payload)!
-- In the transaction that decides.
INSERT INTO outbox (sink, aggregate_id, kind, payload) VALUES (:sink, :aggregate_id, :kind, CAST(:payload AS jsonb));

-- name: claim(sink, most, seconds)
-- The first unpublished message of each aggregate, so that order is kept; rows that another relay is claiming are
-- passed over. Committed before anything happens outside. ARRAY(…) is run once; the planner may run IN (…) again and
-- again, and claim more than was asked for.
UPDATE outbox SET claimed_until = clock_timestamp() + :seconds * interval '1 second'
 WHERE message_id = ANY (ARRAY(
   SELECT message_id FROM outbox o
    WHERE sink = :sink AND published_time IS NULL AND parked_time IS NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
      AND NOT EXISTS (SELECT FROM outbox earlier
                       WHERE earlier.aggregate_id = o.aggregate_id AND earlier.message_id < o.message_id
                         AND earlier.published_time IS NULL)
    ORDER BY message_id LIMIT :most FOR NO KEY UPDATE SKIP LOCKED))
RETURNING message_id, aggregate_id, kind, CAST(payload AS text) AS payload;

-- name: publish(message_ids)!
UPDATE outbox SET published_time = clock_timestamp(), claimed_until = NULL
 WHERE message_id = ANY (:message_ids) AND published_time IS NULL AND parked_time IS NULL;

-- name: unclaim(message_ids)!
-- The sink is away: the rows are free again, and no try is spent.
UPDATE outbox SET claimed_until = NULL WHERE message_id = ANY (:message_ids) AND published_time IS NULL;

-- name: refuse(message_id, refusal, most_refusals, first_rest, longest_rest)<!
-- The sink refused this row. It rests twice as long after each refusal, with jitter; after the last it is parked.
UPDATE outbox
   SET refusals = refusals + 1, last_refusal = :refusal,
       claimed_until = CASE WHEN refusals + 1 < :most_refusals THEN clock_timestamp()
         + least(:longest_rest, :first_rest * 2 ^ refusals) * (0.5 + random() / 2) * interval '1 second' END,
       parked_time = CASE WHEN refusals + 1 >= :most_refusals THEN clock_timestamp() END
 WHERE message_id = :message_id AND published_time IS NULL
RETURNING parked_time IS NOT NULL;

-- name: depth(sink)^
SELECT count(*) FILTER (WHERE parked_time IS NULL) AS waiting, count(*) FILTER (WHERE parked_time IS NOT NULL) AS parked,
       coalesce(extract(epoch FROM clock_timestamp() - min(created_time)), 0)::float8 AS oldest_seconds
  FROM outbox WHERE sink = :sink AND published_time IS NULL;
