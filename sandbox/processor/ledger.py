"""The SQLite file: intents, answers by key, captures. One process has it open; every call is one transaction."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosql

from sandbox.processor.intents import Intent, Outcome

KEY_SECONDS = 24 * 3600  # Stripe forgets a key after a day at the earliest


@dataclass(frozen=True, slots=True)
class Stored:
    """The answer that a key got. `body` is JSON."""

    fingerprint: str
    request_id: str
    status: int
    body: str


class Ledger:
    """Calls take about 50 µs and run on the event loop itself: that makes this process the one writer.

    A commit reaches the file before it returns, and so survives the end of the process; it is not forced to the disk.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=1, cached_statements=64)
        self.queries: Any = aiosql.from_path(Path(__file__).with_suffix(".sql"), "sqlite3")
        try:
            self.connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # before WAL: then a second process is refused
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = NORMAL")
            self.queries.create_tables(self.connection)
        except sqlite3.OperationalError as error:
            raise SystemExit(f"The ledger {path} cannot be opened ({error}): another process may have it.") from None

    def find_intent(self, intent_id: str) -> Intent | None:
        document = self.queries.find_intent(self.connection, id=intent_id)
        return json.loads(document) if document else None

    def find_answer(self, key: str) -> Stored | None:
        row = self.queries.find_answer(self.connection, key=key, since=int(time.time()) - KEY_SECONDS)
        return Stored(*row) if row else None

    def record(self, outcome: Outcome, *, key: str, fingerprint: str, request_id: str) -> str:
        """Writes what a call did and what it answered, all or nothing; the answer's body as JSON."""
        body, now = json.dumps(outcome.body), int(time.time())
        with self._transaction():
            document = body if outcome.body is outcome.intent else json.dumps(outcome.intent)
            self.queries.put_intent(self.connection, id=outcome.intent["id"], document=document)
            if outcome.captured:
                self._put_capture(outcome.intent, now)
            if key:
                answer = {"fingerprint": fingerprint, "request_id": request_id, "status": outcome.status, "body": body}
                self.queries.put_answer(self.connection, key=key, created=now, **answer)
        return body

    def list_captures(self, *, after: int, limit: int, order_id: str) -> list[dict[str, Any]]:
        """Rows after a sequence, in its order; of one order unless `order_id` is empty."""
        if order_id:
            rows = self.queries.list_captures_of_order(self.connection, order_id=order_id, after=after, limit=limit)
        else:
            rows = self.queries.list_captures(self.connection, after=after, limit=limit)
        names = ("sequence", "orderId", "paymentIntent", "amount", "currency", "captured", "refunded", "created")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def close(self) -> None:
        self.connection.close()

    def _put_capture(self, intent: Intent, now: int) -> None:
        self.queries.put_capture(
            self.connection,
            payment_intent=intent["id"],
            order_id=intent["metadata"].get("order_id", ""),
            amount=intent["amount"],
            currency=intent["currency"].upper(),
            created=now,
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
