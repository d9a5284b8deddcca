-- Payments: one attempt for each order, written down before the processor hears of it.

-- Every guard in this service is written for READ COMMITTED, and every wait is bounded. Set for the role in this
-- database they hold through a pooler too and cost no round trip; the service checks them when it starts.
DO $$
DECLARE
  v_setting text;
BEGIN
  FOREACH v_setting IN ARRAY ARRAY[
    'default_transaction_isolation = ''read committed''',
    'statement_timeout = ''5s''',
    'lock_timeout = ''2s''',
    'idle_in_transaction_session_timeout = ''10s'''] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s', current_user, current_database(), v_setting);
  END LOOP;
END $$;

--   CREATED ──► SENT ──► SUCCEEDED
--      │          │  ╲──► FAILED ──► SUCCEEDED            (late evidence)
--      │          ╰──► UNKNOWN ──► SUCCEEDED | FAILED
--      │                     ╰──► UNRESOLVED ──► SUCCEEDED (late evidence)
--      ╰──► FAILED                                         (abandoned before anything was sent; final)
--
-- An order that is abandoned before its charge was ever asked for gets a row that is FAILED from the start, and knows
-- no amount: there is something for a charge call that comes late to be refused by.
--
-- Each arrow is one guarded UPDATE; rows affected is the verdict.
CREATE TABLE attempt (
  -- The key is the promise: an order has one attempt, and the processor's idempotency keys are made from it.
  order_id            text        NOT NULL,
  state               text        NOT NULL DEFAULT 'CREATED',
  currency_code       text,
  amount_minor        bigint,
  -- The processor's name for a way to pay. Kept because a confirm must be repeated with the same parameters.
  payment_token       text,
  -- The processor's id, committed before the money is asked for: from then on there is a handle to ask and cancel by.
  processor_reference text,
  failure_reason      text,
  -- Why the attempt is to be ended at the processor instead of tried again; null while it is tried.
  closing_reason      text,
  send_count          int         NOT NULL DEFAULT 0,
  first_send_time     timestamptz,
  -- Grows with each claim, and fences it: a worker that lost its claim changes nothing any more.
  claim_number        int         NOT NULL DEFAULT 0,
  -- When a worker may take it. A claim moves this to the claim's end, so an end needs no clock but the database's.
  due_time            timestamptz NOT NULL DEFAULT clock_timestamp(),
  create_time         timestamptz NOT NULL DEFAULT clock_timestamp(),
  settle_time         timestamptz,
  -- When it ended as abandoned: booking is told that nothing was charged, and that nothing will be. Kept for ever, so that
  -- money which comes all the same is seen.
  abandon_time        timestamptz,

  CONSTRAINT an_order_has_one_attempt PRIMARY KEY (order_id),
  -- An intent of the processor belongs to one order: else one payment could pay two.
  CONSTRAINT an_intent_belongs_to_one_order UNIQUE (processor_reference),
  CONSTRAINT attempt_state_is_known
    CHECK (state IN ('CREATED', 'SENT', 'SUCCEEDED', 'FAILED', 'UNKNOWN', 'UNRESOLVED')),
  CONSTRAINT amount_is_positive CHECK (amount_minor > 0),
  CONSTRAINT currency_is_a_code CHECK (currency_code ~ '^[A-Z]{3}$'),
  CONSTRAINT only_an_attempt_abandoned_unsent_knows_no_charge
    CHECK ((currency_code IS NULL) = (amount_minor IS NULL) AND (currency_code IS NULL) = (payment_token IS NULL)
           AND (currency_code IS NOT NULL OR (state = 'FAILED' AND abandon_time IS NOT NULL AND send_count = 0))),
  CONSTRAINT a_send_is_counted
    CHECK (CASE WHEN state = 'CREATED' THEN send_count = 0 ELSE send_count > 0 OR abandon_time IS NOT NULL END),
  CONSTRAINT a_send_has_a_time CHECK ((send_count = 0) = (first_send_time IS NULL)),
  CONSTRAINT success_has_a_reference CHECK (state <> 'SUCCEEDED' OR processor_reference IS NOT NULL),
  CONSTRAINT failure_has_a_reason CHECK ((state = 'FAILED') = (failure_reason IS NOT NULL)),
  CONSTRAINT an_abandoned_attempt_says_when CHECK (failure_reason <> 'ABANDONED' OR abandon_time IS NOT NULL),
  CONSTRAINT the_end_has_a_time CHECK ((state IN ('SUCCEEDED', 'FAILED')) = (settle_time IS NOT NULL))
);

-- What is left to do, soonest first; settled attempts are not in it.
CREATE INDEX attempt_due ON attempt (due_time) WHERE state IN ('CREATED', 'SENT', 'UNKNOWN');
-- What a person must look at.
CREATE INDEX attempt_unresolved ON attempt (create_time) WHERE state = 'UNRESOLVED';
-- What must never have moved money.
CREATE INDEX attempt_abandoned ON attempt (abandon_time) WHERE abandon_time IS NOT NULL;
