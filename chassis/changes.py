"""Committed changes of a Postgres database, in the order of their commits, read from its log (pgoutput).

A slot is made by `new_slot`, which also exports the snapshot that the log continues, and read by one `ChangeStream`
at a time: a second is refused with SlotInUse. Nothing is acknowledged but what the caller acknowledges.

psycopg2 blocks, so it lives in a thread of its own. Formats: PostgreSQL's "Logical Replication Message Formats".
"""

import asyncio
import os
import select
import struct
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import psycopg2
import psycopg2.errors
from psycopg2.extras import LogicalReplicationConnection, ReplicationCursor

T = TypeVar("T")
Row = Mapping[str, str | None]

MOST_CHANGES_BUFFERED = 100_000  # about 40 MB; a larger transaction is still handed over, alone
STATUS_SECONDS = 5.0  # between two words to the server, which gives up a silent reader after 60 s
# The exporting session is "in a transaction" while the snapshot is read; the role's time-outs are for others.
SESSION = "-c idle_in_transaction_session_timeout=0 -c statement_timeout=0 -c lock_timeout=0"


class SlotInUse(Exception):
    """Another process reads the slot."""


class SlotMissing(Exception):
    """There is no such slot, or its log is gone: only a new slot helps."""


class StreamLost(Exception):
    """The connection ended. What was read and not acknowledged comes again to the next reader."""


class Kind(StrEnum):
    """What happened to a row, or to a whole table."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Change:
    """One row after its change, values as text, only the publication's columns.

    A deleted row has its key alone, a truncated table nothing. `old_key` is there only if an update changed the key.
    """

    table: str
    kind: Kind
    row: Row
    old_key: Row | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    """`commit_lsn` orders transactions; acknowledge `end_lsn`, the first byte after the commit."""

    commit_lsn: int
    end_lsn: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole transactions. Everything committed below `position` is in this batch or was in one before."""

    transactions: tuple[Transaction, ...]
    position: int


class NewSlot(NamedTuple):
    """A snapshot for SET TRANSACTION SNAPSHOT; it shows what was committed below `consistent_lsn`, the log the rest."""

    consistent_lsn: int
    snapshot: str


def parse_lsn(text: str) -> int:
    """`16/B374D848` as a number."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


@asynccontextmanager
async def new_slot(dsn: str, slot: str) -> AsyncIterator[NewSlot]:
    """Makes a slot that survives a failover. The snapshot is good until the block is left."""
    connection = await asyncio.to_thread(_connect, dsn)
    try:
        cursor = connection.cursor()
        command = f"CREATE_REPLICATION_SLOT {_quoted(slot)} LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER true)"
        await asyncio.to_thread(_translated, lambda: cursor.execute(command))
        _, consistent_point, snapshot, _ = cursor.fetchone() or ()
        yield NewSlot(parse_lsn(consistent_point), snapshot)
    finally:
        connection.close()


async def drop_slot(dsn: str, slot: str) -> None:
    """Raises SlotInUse while somebody reads it; a slot that does not exist is no error."""

    def drop() -> None:
        connection = _connect(dsn)
        try:
            _translated(lambda: connection.cursor().execute(f"DROP_REPLICATION_SLOT {_quoted(slot)}"))
        except SlotMissing:
            return
        finally:
            connection.close()

    await asyncio.to_thread(drop)


class ChangeStream:
    """The one reader of a slot. Starts where the last acknowledgement ended."""

    def __init__(self, connection: LogicalReplicationConnection, reader: ReplicationCursor) -> None:
        self._connection = connection
        self._reader: Any = reader  # psycopg2's stubs leave a replication cursor's methods untyped
        # psycopg2 moves a cursor's acknowledgement on by itself when a keepalive comes, also in the middle of a
        # transaction that began below it. So the cursor that reads never acknowledges, and this one never reads.
        self._acknowledger: Any = connection.cursor()
        self._decoder = Decoder()
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._room = threading.Condition()  # guards what follows
        self._transactions: deque[Transaction] = deque()
        self._buffered = self._position = self._acknowledged = 0
        self._asked = self._closing = self._speak = False
        self._failure: Exception | None = None
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    @classmethod
    async def open(cls, dsn: str, slot: str, publication: str) -> "ChangeStream":
        """Raises SlotInUse or SlotMissing."""

        def start() -> tuple[LogicalReplicationConnection, ReplicationCursor]:
            connection = _connect(dsn)
            try:
                reader = connection.cursor()
                options = {"proto_version": "1", "publication_names": publication}
                _translated(lambda: reader.start_replication(slot_name=slot, options=options, decode=False))
            except BaseException:
                connection.close()
                raise
            return connection, reader

        stream = cls(*await asyncio.to_thread(start))
        stream._thread.start()
        return stream

    async def read(self, timeout_seconds: float) -> Batch:
        """What has come since the last call; waits for something new, and is empty when nothing came in time.

        Raises StreamLost once the connection has ended.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._ready.wait()
        except TimeoutError:
            pass
        self._ready.clear()
        with self._room:
            if self._failure and not self._transactions:
                raise StreamLost(str(self._failure)) from self._failure
            batch = Batch(tuple(self._transactions), self._position)
            self._transactions.clear()
            self._buffered = 0
            self._room.notify()
        return batch

    def acknowledge(self, lsn: int) -> None:
        """Everything below `lsn` is kept elsewhere now: the server may forget it."""
        with self._room:
            self._acknowledged = max(self._acknowledged, lsn)
        self._wake()

    def ask_position(self) -> None:
        """Makes the server say how far its log was sent; the answer moves `Batch.position`."""
        with self._room:
            self._asked = True
        self._wake()

    async def close(self) -> None:
        """Ends the connection, which frees the slot. What was acknowledged just before may be lost, and come again."""
        with self._room:
            self._closing = True
            self._room.notify()
        self._wake()
        await asyncio.to_thread(self._thread.join)
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _wake(self) -> None:
        self._speak = True
        os.write(self._wake_writer, b"!")

    def _run(self) -> None:
        try:
            while not self._closing:
                message = self._reader.read_message()
                if message is None:
                    self._rest()
                    continue
                transaction = self._decoder.decode(message.payload)
                if transaction is not None:
                    self._hand_over(transaction)
                if self._speak:
                    self._feedback()
            self._feedback()
        except Exception as error:
            self._failure = error
        finally:
            self._connection.close()
            self._tell()

    def _rest(self) -> None:
        """Nothing is left to read: a keepalive may have moved the position; then waits for the server or the caller."""
        if not self._decoder.in_transaction and self._reader.wal_end > self._position:
            self._position = self._reader.wal_end
            self._tell()
        self._feedback()
        readable, _, _ = select.select([self._connection.fileno(), self._wake_reader], [], [], STATUS_SECONDS)
        if self._wake_reader in readable:
            os.read(self._wake_reader, 4096)

    def _hand_over(self, transaction: Transaction) -> None:
        changes = len(transaction.changes)
        with self._room:
            while self._buffered and self._buffered + changes > MOST_CHANGES_BUFFERED and not self._closing:
                self._room.wait(STATUS_SECONDS)
                self._feedback()
            self._transactions.append(transaction)
            self._buffered += max(1, changes)
            self._position = transaction.end_lsn
        self._tell()

    def _feedback(self) -> None:
        self._speak = False
        with self._room:
            asked, self._asked = self._asked, False
            done = self._acknowledged
        # The reader's own answers to the server must not fall behind: it would be asked again at once, for ever.
        self._reader.send_feedback(write_lsn=self._position)
        self._acknowledger.send_feedback(
            write_lsn=self._position, flush_lsn=done, apply_lsn=done, reply=asked, force=True
        )

    def _tell(self) -> None:
        if not self._ready.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ready.set)


@dataclass(slots=True)
class Relation:
    """A table as the log describes it before its first change."""

    table: str
    columns: tuple[str, ...]
    keys: tuple[bool, ...]


@dataclass(slots=True)
class Decoder:
    """Puts pgoutput's messages (protocol 1: whole transactions, in commit order) together."""

    relations: dict[int, Relation] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    in_transaction: bool = False

    def decode(self, payload: bytes) -> Transaction | None:
        """One message; the transaction that it completes, if it does."""
        kind = payload[:1]
        if kind == b"C":
            return self._commit(payload)
        if kind == b"B":
            self.changes, self.in_transaction = [], True
        elif kind in ROW_KINDS:
            self.changes.append(self._row_change(ROW_KINDS[kind], payload))
        elif kind == b"T":
            self.changes += self._truncates(payload)
        elif kind == b"R":
            self._learn_relation(payload)
        elif kind not in (b"Y", b"O"):  # types and origins say nothing about rows
            raise ValueError(f"pgoutput message {kind!r} is not of protocol 1")
        return None

    def _commit(self, payload: bytes) -> Transaction:
        _flags, commit_lsn, end_lsn = struct.unpack_from(">BQQ", payload, 1)
        changes, self.changes, self.in_transaction = tuple(self.changes), [], False
        return Transaction(commit_lsn, end_lsn, changes)

    def _row_change(self, kind: Kind, payload: bytes) -> Change:
        relation = self.relations[int.from_bytes(payload[1:5], "big")]
        part, old_key, offset = payload[5:6], None, 6
        row, offset = _read_row(payload, offset, relation.columns)
        if part in (b"K", b"O"):
            old_key = {name: row[name] for name, is_key in zip(relation.columns, relation.keys, strict=True) if is_key}
            if kind is Kind.DELETE:
                return Change(relation.table, kind, old_key)
            row, offset = _read_row(payload, offset + 1, relation.columns)
        return Change(relation.table, kind, row, old_key)

    def _truncates(self, payload: bytes) -> list[Change]:
        (count,) = struct.unpack_from(">I", payload, 1)
        numbers = struct.unpack_from(f">{count}I", payload, 6)
        return [Change(self.relations[number].table, Kind.TRUNCATE, {}) for number in numbers]

    def _learn_relation(self, payload: bytes) -> None:
        number = int.from_bytes(payload[1:5], "big")
        _namespace, offset = _read_text(payload, 5)
        table, offset = _read_text(payload, offset)
        (count,) = struct.unpack_from(">H", payload, offset + 1)  # after the replica identity
        offset += 3
        columns, keys = [], []
        for _ in range(count):
            keys.append(bool(payload[offset] & 1))
            name, offset = _read_text(payload, offset + 1)
            columns.append(name)
            offset += 8  # type and its modifier
        self.relations[number] = Relation(table, tuple(columns), tuple(keys))


ROW_KINDS = {b"I": Kind.INSERT, b"U": Kind.UPDATE, b"D": Kind.DELETE}


def _read_text(payload: bytes, offset: int) -> tuple[str, int]:
    end = payload.index(0, offset)
    return payload[offset:end].decode(), end + 1


def _read_row(payload: bytes, offset: int, columns: tuple[str, ...]) -> tuple[dict[str, str | None], int]:
    """A column whose large value did not change is left out: the server does not send it."""
    row: dict[str, str | None] = {}
    offset += 2
    for name in columns:
        kind = payload[offset]
        offset += 1
        if kind == TEXT:
            start = offset + 4
            offset = start + int.from_bytes(payload[offset:start], "big")
            row[name] = payload[start:offset].decode()
        elif kind == NULL:
            row[name] = None
    return row, offset


TEXT, NULL = b"tn"


def _connect(dsn: str) -> LogicalReplicationConnection:
    try:
        return psycopg2.connect(
            dsn, connection_factory=LogicalReplicationConnection, options=SESSION, connect_timeout=10
        )
    except psycopg2.Error as error:
        raise StreamLost(str(error)) from error


def _translated(call: Callable[[], T]) -> T:
    try:
        return call()
    except psycopg2.errors.ObjectInUse as error:
        raise SlotInUse(str(error)) from error
    except (psycopg2.errors.UndefinedObject, psycopg2.errors.ObjectNotInPrerequisiteState) as error:
        raise SlotMissing(str(error)) from error
    except psycopg2.Error as error:
        raise StreamLost(str(error)) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
