"""A shard's booking database, as far as its publication goes: the log of its seat rows, and one reading of them all."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from chassis.changes import Change, ChangeStream, Kind, SlotInUse, drop_slot, new_slot, parse_lsn
from chassis.queries import load_queries
from services.seatfeed.rows import Seat, SeatRow, Slot, Standing

queries = load_queries(Path(__file__).with_name("seats.sql"))
ROWS_AT_ONCE = 5000  # of a reading of the whole table: about 1 MB
SECONDS_FOR_A_READING = 120  # for one fetch of ROWS_AT_ONCE; the role's own time-out is for short statements

TRIES_TO_DROP = 20  # 0.1 s apart: the server notices a closed stream a moment later

DatabaseError = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
"""What every method may raise when the database is away."""

STANDINGS = {"AVAILABLE": Standing.OPEN, "HELD": Standing.HELD}
"""Every other state is taken, also one that this service does not know: it must not show what cannot be held."""


class SeatLog:
    """One process' way to one shard. `connect` first."""

    def __init__(self, dsn: str, *, slot: str, publication: str) -> None:
        self.dsn, self.slot, self.publication = dsn, slot, publication
        self._connection: asyncpg.Connection | None = None

    async def connect(self) -> None:
        """Does nothing while the connection lives."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self.dsn, timeout=10, command_timeout=180, server_settings={"application_name": self.slot}
            )

    async def close(self) -> None:
        """Gives the lead away, too."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def take_lead(self) -> bool:
        """Whether this process may read the slot: another one leads otherwise. Again while leading: still true."""
        return bool(await queries.take_lead(self._connection, slot=self.slot))

    async def get_slot(self) -> Slot | None:
        """None when there is none."""
        row = await queries.get_slot(self._connection, slot=self.slot)
        if row is None:
            return None
        return Slot(parse_lsn(row["confirmed"] or "0/0"), row["lost"], parse_lsn(row["current"]))

    async def probe_log(self) -> tuple[int, int]:
        """(time, end of the log): what was visible at that time was committed below that end."""
        row = await queries.probe_log(self._connection)
        return row["read_time"], parse_lsn(row["current"])

    async def open_stream(self) -> ChangeStream:
        """Raises SlotInUse or SlotMissing."""
        return await ChangeStream.open(self.dsn, self.slot, self.publication)

    @asynccontextmanager
    async def new_slot(self) -> AsyncIterator[tuple[int, AsyncIterator[SeatRow]]]:
        """A new slot in place of the old: (LSN, all seats committed below it, by event). The log continues there."""
        await self._drop_slot()
        async with new_slot(self.dsn, self.slot) as made:
            yield made.consistent_lsn, self._read_snapshot(made.snapshot)

    async def list_events(self, most: int) -> list[int]:
        """With seats, by number."""
        return [row["event_id"] async for row in queries.list_events(self._connection, most=most)]

    async def list_seats_of_event(self, event: int) -> dict[int, Seat]:
        """As committed now."""
        return {
            row["seat_id"]: seat_of(row) async for row in queries.list_seats_of_event(self._connection, event=event)
        }

    async def _drop_slot(self) -> None:
        for tried in range(1, TRIES_TO_DROP + 1):
            try:
                return await drop_slot(self.dsn, self.slot)
            except SlotInUse:
                if tried == TRIES_TO_DROP:
                    raise
            await asyncio.sleep(0.1)

    async def _read_snapshot(self, snapshot: str) -> AsyncIterator[SeatRow]:
        assert self._connection is not None
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            await self._connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            await self._connection.execute(f"SET LOCAL statement_timeout = '{SECONDS_FOR_A_READING}s'")
            async for row in self._connection.cursor(queries.list_seats.sql, prefetch=ROWS_AT_ONCE):
                yield SeatRow(row["event_id"], row["seat_id"], seat_of(row))


def seats_of(change: Change) -> list[tuple[int, int, Seat | None]]:
    """(event, seat id, seat or None when it is gone) for a change of the published table; a truncate has no rows."""
    if change.kind is Kind.TRUNCATE:
        return []
    if change.kind is Kind.DELETE:
        return [(*_key(change.row), None)]
    here = (*_key(change.row), seat_of(change.row))
    return [(*_key(change.old_key), None), here] if change.old_key else [here]


def seat_of(row: Mapping[str, Any]) -> Seat:
    """From a row of booking's, read or replicated."""
    return Seat(row["section"] or "", STANDINGS.get(row["state"], Standing.TAKEN))


def _key(row: Mapping[str, str | None]) -> tuple[int, int]:
    return int(row["event_id"] or 0), int(row["seat_id"] or 0)
