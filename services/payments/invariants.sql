-- name: unresolved_attempt()^
-- A payment whose outcome could not be found out within a day: a person must decide.
SELECT count(*) AS violations, (array_agg(order_id ORDER BY create_time))[1: 10] AS examples
  FROM attempt WHERE state = 'UNRESOLVED';

-- name: attempt_undecided_too_long()^
-- A payment is undecided an hour after it was first sent, though it is cancelled at the processor long before that.
SELECT count(*) AS violations, (array_agg(order_id ORDER BY create_time))[1: 10] AS examples
  FROM attempt
 WHERE settle_time IS NULL AND state <> 'UNRESOLVED' AND first_send_time < clock_timestamp() - interval '1 hour';

-- name: attempt_not_worked_on()^
-- An attempt has been due for five minutes and no worker took it.
SELECT count(*) AS violations, (array_agg(order_id ORDER BY due_time))[1: 10] AS examples
  FROM attempt
 WHERE settle_time IS NULL AND state <> 'UNRESOLVED' AND due_time < clock_timestamp() - interval '5 minutes';

-- name: abandoned_attempt_charged()^
-- Money moved, or something was sent, for an order that booking was told is not charged any more.
SELECT count(*) AS violations, (array_agg(order_id ORDER BY abandon_time))[1: 10] AS examples
  FROM attempt WHERE abandon_time IS NOT NULL AND (state <> 'FAILED' OR first_send_time > abandon_time);

-- name: outcome_without_message()^
-- A payment was settled within the last day and booking will never hear of it: no message was written with the outcome.
SELECT count(*) AS violations, (array_agg(order_id ORDER BY settle_time))[1: 10] AS examples
  FROM attempt
 WHERE state IN ('SUCCEEDED', 'FAILED') AND settle_time > clock_timestamp() - interval '1 day'
   AND NOT EXISTS (SELECT FROM outbox
                    WHERE aggregate_id = order_id AND kind = 'outcome' AND payload ->> 'outcome' = state);

-- name: outcome_parked()^
-- Booking refused an outcome so often that it waits for a person.
SELECT count(*) AS violations, (array_agg(aggregate_id ORDER BY message_id))[1: 10] AS examples
  FROM outbox WHERE published_time IS NULL AND parked_time IS NOT NULL;

-- name: outcome_undelivered()^
-- An outcome has waited for more than five minutes for booking to hear of it.
SELECT count(*) AS violations, (array_agg(aggregate_id ORDER BY message_id))[1: 10] AS examples
  FROM outbox
 WHERE published_time IS NULL AND parked_time IS NULL AND due_time < clock_timestamp() - interval '5 minutes';
