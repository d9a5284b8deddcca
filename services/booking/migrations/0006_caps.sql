-- A later version may lower the cap, and what was sold under the higher one stands. So whether a cap was broken is judged
-- by the highest that the event ever had.
ALTER TABLE event ADD COLUMN highest_tickets_per_account int;
UPDATE event SET highest_tickets_per_account = tickets_per_account;
ALTER TABLE event
  ALTER COLUMN highest_tickets_per_account SET NOT NULL,
  ADD CONSTRAINT no_cap_is_above_the_highest CHECK (tickets_per_account <= highest_tickets_per_account);
