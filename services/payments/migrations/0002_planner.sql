-- The statements of this service, and the outbox's, are for a few rows of large tables, and find them by index. But a
-- session keeps the plan that it made while a table was small, and a sale makes tens of thousands of rows before the
-- statistics notice: until then such a plan reads whole tables for each call, and a claim of the outbox does so for each
-- row of it. So, as for booking's role, for this one in this database only what costs as much as it finds is left: index
-- scans, row by row. What is meant to read whole tables, as the invariants are, allows it for its transaction.
DO $$
DECLARE
  v_setting text;
BEGIN
  FOREACH v_setting IN ARRAY ARRAY['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'material'] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET enable_%s = off', current_user, current_database(), v_setting);
  END LOOP;
END $$;
