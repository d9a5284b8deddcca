-- name: insert_attempt(order_id, currency_code, amount_minor, payment_token)!
INSERT INTO attempt (order_id, currency_code, amount_minor, payment_token)
VALUES (:order_id, :currency_code, :amount_minor, :payment_token)
ON CONFLICT (order_id) DO NOTHING;

-- name: mark_replay()!
-- So that this transaction has something to commit: its acknowledgement covers the first one's too.
SELECT pg_logical_emit_message(true, 'rowlock', 'replay');

-- name: abandon_unheard(order_id)!
-- For an order that nobody asked a charge of: what a charge call that comes late will find.
INSERT INTO attempt (order_id, state, failure_reason, settle_time, abandon_time)
VALUES (:order_id, 'FAILED', 'ABANDONED', clock_timestamp(), clock_timestamp())
ON CONFLICT (order_id) DO NOTHING;

-- name: abandon_unsent(order_id)!
-- A worker may have claimed it, and is not asked: before it sends anything it needs this row in a state that can be sent.
UPDATE attempt
   SET state = 'FAILED', failure_reason = 'ABANDONED', settle_time = clock_timestamp(), abandon_time = clock_timestamp()
 WHERE order_id = :order_id AND state = 'CREATED';

-- name: close_abandoned(order_id)!
-- From now on nobody confirms it; whoever works on it next, or goes on working, ends it at the processor.
UPDATE attempt SET closing_reason = 'ABANDONED'
 WHERE order_id = :order_id AND state IN ('SENT', 'UNKNOWN') AND closing_reason IS NULL;

-- name: get_attempt(order_id)^
SELECT order_id, state, coalesce(currency_code, '') AS currency_code, coalesce(amount_minor, 0) AS amount_minor,
       coalesce(payment_token, '') AS payment_token, processor_reference, failure_reason, closing_reason,
       send_count, claim_number, create_time, false AS may_send
  FROM attempt WHERE order_id = :order_id;

-- name: claim_attempts(most, claim_seconds, ambiguity_seconds, sending_seconds, closing_reason)
-- Moving due_time is the claim. Rows that another worker is claiming are passed over. (An array, not IN: the planner
-- may run a sub-select of IN more than once, and each run would lock another batch.) Whether the attempt has been
-- undecided for too long, and whether it may still be sent, is judged here, by the database's clock. (What is due, by
-- now(), for only what stands still during a statement can bound the index: many may rest while the processor is away.)
UPDATE attempt
   SET claim_number = claim_number + 1,
       due_time = clock_timestamp() + :claim_seconds * interval '1 second',
       closing_reason = coalesce(closing_reason, CASE
         WHEN first_send_time < clock_timestamp() - :ambiguity_seconds * interval '1 second'
         THEN CAST(:closing_reason AS text) END)
 WHERE order_id = ANY (ARRAY(
   SELECT order_id FROM attempt
    WHERE settle_time IS NULL AND state <> 'UNRESOLVED' AND due_time <= now()
    ORDER BY due_time LIMIT :most FOR NO KEY UPDATE SKIP LOCKED))
RETURNING order_id, state, currency_code, amount_minor, payment_token, processor_reference, failure_reason,
          closing_reason, send_count, claim_number, create_time,
          coalesce(first_send_time > clock_timestamp() - :sending_seconds * interval '1 second', true) AS may_send;

-- name: record_send(order_id, claim_number, claim_seconds)^
-- Before each call that may change something at the processor. It needs a live claim, and renews it. The reason to end
-- the attempt is read here, under the row's lock: once that was written no confirm begins.
UPDATE attempt
   SET state = CASE state WHEN 'CREATED' THEN 'SENT' ELSE state END,
       send_count = send_count + 1,
       first_send_time = coalesce(first_send_time, clock_timestamp()),
       due_time = clock_timestamp() + :claim_seconds * interval '1 second'
 WHERE order_id = :order_id AND claim_number = :claim_number AND due_time > clock_timestamp()
   AND state IN ('CREATED', 'SENT', 'UNKNOWN')
RETURNING closing_reason;

-- name: record_reference(order_id, claim_number, processor_reference)!
UPDATE attempt SET processor_reference = :processor_reference
 WHERE order_id = :order_id AND claim_number = :claim_number AND state IN ('SENT', 'UNKNOWN')
   AND processor_reference IS NULL;

-- name: record_success(order_id)!
-- Evidence is evidence, whoever brings it: no claim is asked for, and a failure gives way.
UPDATE attempt SET state = 'SUCCEEDED', failure_reason = NULL, settle_time = clock_timestamp()
 WHERE order_id = :order_id AND state IN ('SENT', 'UNKNOWN', 'FAILED', 'UNRESOLVED');

-- name: record_failure(order_id, failure_reason)!
UPDATE attempt
   SET state = 'FAILED', failure_reason = CAST(:failure_reason AS text), settle_time = clock_timestamp(),
       abandon_time = CASE WHEN CAST(:failure_reason AS text) = 'ABANDONED' THEN clock_timestamp() END
 WHERE order_id = :order_id AND state IN ('SENT', 'UNKNOWN');

-- name: record_unknown(order_id, claim_number, closing_reason, known_reason, first_rest, longest_rest)$
-- Due again after a rest that doubles with each claim; at once if it is to be ended for a reason that this claim did not
-- know of when it began. The state before tells whether booking has heard of it.
UPDATE attempt
   SET state = 'UNKNOWN',
       closing_reason = coalesce(closing_reason, CAST(:closing_reason AS text)),
       due_time = clock_timestamp() + CASE
         WHEN coalesce(closing_reason, CAST(:closing_reason AS text)) IS DISTINCT FROM CAST(:known_reason AS text)
         THEN interval '0'
         ELSE least(CAST(:longest_rest AS float8), :first_rest * 2 ^ least(claim_number - 1, 30))
              * (0.5 + random() / 2) * interval '1 second' END
 WHERE order_id = :order_id AND claim_number = :claim_number AND state IN ('SENT', 'UNKNOWN')
RETURNING old.state;

-- name: record_unresolved(order_id, claim_number)!
UPDATE attempt SET state = 'UNRESOLVED'
 WHERE order_id = :order_id AND claim_number = :claim_number AND state = 'UNKNOWN';

-- name: measure_unsettled()^
-- Each part has an index of its own; with one condition for both all attempts that there ever were would be read.
SELECT count(*) AS attempts,
       coalesce(extract(epoch FROM clock_timestamp() - min(create_time)), 0)::float8 AS oldest_seconds
  FROM (SELECT create_time FROM attempt WHERE settle_time IS NULL AND state <> 'UNRESOLVED'
         UNION ALL
        SELECT create_time FROM attempt WHERE state = 'UNRESOLVED') unsettled;
