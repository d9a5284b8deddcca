-- Effects that a transaction decided on and that happen outside of it: charge a card, tell another service. The row is
-- written with the decision, so neither can be lost without the other; a relay delivers it at least once.

CREATE TABLE outbox (
  message_id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- Who is to hear of it: payments, booking, booking.orders.
  sink           text        NOT NULL,
  -- A sink hears the messages of one aggregate (an order) in the order in which they were written. Other sinks are not
  -- waited for: one that is away must not hold up a charge.
  aggregate_id   text        NOT NULL,
  kind           text        NOT NULL,
  payload        jsonb       NOT NULL,
  created_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Since when it waits: when it was written, or when somebody asked for it again.
  due_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- A relay's claim, or the row's rest, ends by the database's clock: a relay that died is forgotten without anybody
  -- noticing.
  claimed_until  timestamptz,
  -- Grows with each claim. Only the last claimant may say what became of the row; one whose claim ran out finds another
  -- number here.
  claim_number   int         NOT NULL DEFAULT 0,
  refusals       int         NOT NULL DEFAULT 0,
  last_refusal   text,
  published_time timestamptz,
  -- Refused too often: it waits for a person, and so do later messages of its aggregate to that sink.
  parked_time    timestamptz,
  CONSTRAINT published_messages_are_not_parked CHECK (published_time IS NULL OR parked_time IS NULL)
);

-- What is left to do, oldest first; published rows are not in it.
CREATE INDEX outbox_unpublished ON outbox (sink, message_id) WHERE published_time IS NULL;
-- Whether an earlier message of the aggregate is still to be delivered.
CREATE INDEX outbox_unpublished_aggregate ON outbox (aggregate_id, sink, message_id) WHERE published_time IS NULL;
-- What may be deleted, and what can be published again.
CREATE INDEX outbox_published ON outbox (published_time) WHERE published_time IS NOT NULL;
