-- What is left to do, soonest first, as before; but by a condition that only those who look for work write down. The
-- guards of an attempt's changes name states, and where those were the index's condition a plan that was made while there
-- were few attempts read the index to its end for the one that it had the key of.
CREATE INDEX attempt_open ON attempt (due_time) WHERE settle_time IS NULL AND state <> 'UNRESOLVED';
DROP INDEX attempt_due;
