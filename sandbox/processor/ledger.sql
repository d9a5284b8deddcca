-- name: create_tables()#
CREATE TABLE IF NOT EXISTS intent (id TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
-- Answers by key. One is forgotten after a day, as at Stripe.
CREATE TABLE IF NOT EXISTS answer (
  idempotency_key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, request_id TEXT NOT NULL,
  status INTEGER NOT NULL, body TEXT NOT NULL, created INTEGER NOT NULL) WITHOUT ROWID;
-- The money itself: one row for each capture. The unique column is the processor's own promise, that an intent is
-- captured once; nothing keeps two intents of one order apart, so that a double charge shows.
CREATE TABLE IF NOT EXISTS capture (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, payment_intent TEXT NOT NULL UNIQUE, order_id TEXT NOT NULL,
  amount INTEGER NOT NULL, currency TEXT NOT NULL, captured INTEGER NOT NULL, refunded INTEGER NOT NULL DEFAULT 0,
  created INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS capture_order ON capture (order_id);

-- name: find_intent(id)$
SELECT document FROM intent WHERE id = :id;

-- name: put_intent(id, document)!
INSERT INTO intent (id, document) VALUES (:id, :document)
ON CONFLICT (id) DO UPDATE SET document = excluded.document;

-- name: find_answer(key, since)^
SELECT fingerprint, request_id, status, body FROM answer WHERE idempotency_key = :key AND created > :since;

-- name: put_answer(key, fingerprint, request_id, status, body, created)!
INSERT OR REPLACE INTO answer (idempotency_key, fingerprint, request_id, status, body, created)
VALUES (:key, :fingerprint, :request_id, :status, :body, :created);

-- name: put_capture(payment_intent, order_id, amount, currency, created)!
INSERT INTO capture (payment_intent, order_id, amount, currency, captured, created)
VALUES (:payment_intent, :order_id, :amount, :currency, :amount, :created);

-- name: list_captures(after, limit)
SELECT sequence, order_id, payment_intent, amount, currency, captured, refunded, created FROM capture
WHERE sequence > :after ORDER BY sequence LIMIT :limit;

-- name: list_captures_of_order(order_id, after, limit)
SELECT sequence, order_id, payment_intent, amount, currency, captured, refunded, created FROM capture
WHERE order_id = :order_id AND sequence > :after ORDER BY sequence LIMIT :limit;
