-- The statements of this service are for a few rows of large tables, or for the rows of one event, and find them by index.
-- But a session keeps the plan that it made while a table was small, and a sale makes tens of thousands of rows before the
-- statistics notice: until then such a plan reads whole tables for each call, and so may one that is made meanwhile. (To
-- forbid sequential scans alone is not enough: then a whole index is read, and joined by hash or merge; and a bitmap is
-- read to its end before it is sorted.) So for the role in this database only what costs as much as it finds is left:
-- index scans, row by row. What is meant to read whole tables, as the invariants are, allows it for its transaction.
DO $$
DECLARE
  v_setting text;
BEGIN
  FOREACH v_setting IN ARRAY ARRAY['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'material'] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET enable_%s = off', current_user, current_database(), v_setting);
  END LOOP;
END $$;
