"""The log's reader against a real log."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from chassis.changes import Batch, ChangeStream, Kind, SlotInUse, SlotMissing, Transaction, drop_slot, new_slot
from services.seatfeed.rows import Slot
from tests.integration.seatfeed.house import EVENT, Booking, House


@pytest.fixture
async def stream(booking: Booking, house: House) -> AsyncIterator[ChangeStream]:
    log = house.open_log()
    async with new_slot(log.dsn, house.slot):
        pass
    opened = await ChangeStream.open(log.dsn, house.slot, "rowlock_seats")
    yield opened
    await opened.close()


async def read_until(stream: ChangeStream, enough: Callable[[list[Transaction], Batch], bool]) -> list[Transaction]:
    """Reads for 30 s at most."""
    read: list[Transaction] = []
    for _ in range(300):
        stream.ask_position()
        batch = await stream.read(0.1)
        read += batch.transactions
        if enough(read, batch):
            return read
    raise AssertionError(f"only {len(read)} transactions came")


async def test_each_kind_of_change_is_read(booking: Booking, stream: ChangeStream) -> None:
    await booking.connection.execute("UPDATE seat SET state = 'BLOCKED' WHERE seat_id = 1")
    await booking.connection.execute("UPDATE seat SET seat_id = 99 WHERE seat_id = 2")
    await booking.connection.execute("DELETE FROM seat WHERE seat_id = 3")
    await booking.add_event(8, {"Ü": [500]})
    await booking.connection.execute("TRUNCATE seat")
    read = await read_until(stream, lambda read, _: len(read) == 5)
    changes = [change for transaction in read for change in transaction.changes]
    assert [change.kind for change in changes] == [Kind.UPDATE, Kind.UPDATE, Kind.DELETE, Kind.INSERT, Kind.TRUNCATE]
    blocked, moved, deleted, inserted, _ = changes
    assert blocked.row == {"event_id": str(EVENT), "seat_id": "1", "section": "A", "state": "BLOCKED"}
    assert moved.old_key == {"event_id": str(EVENT), "seat_id": "2"}
    assert moved.row["seat_id"] == "99"
    assert deleted.row == {"event_id": str(EVENT), "seat_id": "3"}
    assert inserted.row["section"] == "Ü"
    assert [one.commit_lsn for one in read] == sorted({one.commit_lsn for one in read})


async def test_the_position_moves_on_without_a_change(booking: Booking, house: House, stream: ChangeStream) -> None:
    end = await write_elsewhere(booking, house)
    assert await read_until(stream, lambda _, batch: batch.position >= end) == []


async def test_nothing_is_acknowledged_but_what_the_caller_says(
    booking: Booking, house: House, stream: ChangeStream
) -> None:
    """psycopg2 by itself would go on to the end of the log once the last transaction was acknowledged."""
    await booking.set_state("SOLD", 1)
    (only,) = await read_until(stream, lambda read, _: len(read) == 1)
    stream.acknowledge(only.end_lsn)
    end = await write_elsewhere(booking, house)
    await read_until(stream, lambda _, batch: batch.position >= end)
    for _ in range(20):
        stream.ask_position()
        await asyncio.sleep(0.02)
    assert (await slot_of(house)).confirmed == only.end_lsn < end


async def test_what_was_not_acknowledged_comes_again(booking: Booking, house: House) -> None:
    log = house.open_log()
    async with new_slot(log.dsn, house.slot):
        pass
    stream = await ChangeStream.open(log.dsn, house.slot, "rowlock_seats")
    await booking.set_state("SOLD", 1)
    await booking.set_state("SOLD", 2)
    first, second = await read_until(stream, lambda read, _: len(read) == 2)
    stream.acknowledge(first.end_lsn)
    await stream.close()
    again = await reopen(log.dsn, house.slot)
    try:
        assert await read_until(again, lambda read, _: len(read) == 1) == [second]
    finally:
        await again.close()


async def test_a_slot_has_one_reader(booking: Booking, house: House, stream: ChangeStream) -> None:
    log = house.open_log()
    with pytest.raises(SlotInUse):
        await ChangeStream.open(log.dsn, house.slot, "rowlock_seats")
    with pytest.raises(SlotInUse):
        await drop_slot(log.dsn, house.slot)
    with pytest.raises(SlotMissing):
        await ChangeStream.open(log.dsn, house.slot + "_none", "rowlock_seats")
    await drop_slot(log.dsn, house.slot + "_none")


async def test_a_slot_survives_a_failover_and_says_where_its_snapshot_ends(booking: Booking, house: House) -> None:
    log = house.open_log()
    async with new_slot(log.dsn, house.slot) as made:
        assert (await slot_of(house)).confirmed == made.consistent_lsn
    failover = "SELECT failover FROM pg_replication_slots WHERE slot_name = $1"
    assert await booking.connection.fetchval(failover, house.slot)


async def reopen(dsn: str, slot: str) -> ChangeStream:
    """The server notices a closed stream a moment later."""
    for _ in range(500):
        try:
            return await ChangeStream.open(dsn, slot, "rowlock_seats")
        except SlotInUse:
            await asyncio.sleep(0.02)
    raise AssertionError("the slot stays in use")


async def write_elsewhere(booking: Booking, house: House) -> int:
    """Log that no publication knows; where it ends."""
    await booking.connection.execute("CREATE TABLE elsewhere AS SELECT generate_series(1, 1000)")
    return (await slot_of(house)).current


async def slot_of(house: House) -> Slot:
    log = house.open_log()
    await log.connect()
    try:
        slot = await log.get_slot()
        assert slot is not None
        return slot
    finally:
        await log.close()
