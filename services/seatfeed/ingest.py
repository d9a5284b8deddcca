"""From booking's log to the stored pictures of one shard.

Many processes run this; one leads. Each tick reads the log up to where it ended a moment ago, writes one coalesced
delta for each event that changed, and only then acknowledges: a crash anywhere in between is read again.
"""

import secrets
import time
from collections import deque
from dataclasses import dataclass, field, replace

import structlog
from opentelemetry import trace

from chassis.changes import ChangeStream, Kind, SlotInUse, SlotMissing, StreamLost, Transaction
from services.seatfeed import metrics
from services.seatfeed.errors import PictureLost
from services.seatfeed.picture import Picture
from services.seatfeed.rows import Delta, EventWrite, Head, Seat, SeatChange, Slot
from services.seatfeed.store.pictures import PictureStore, StoreError
from services.seatfeed.store.seats import DatabaseError, SeatLog, seats_of

CATCH_UP_SECONDS = 0.5  # of a tick, for reading the log; what comes later is the next tick's
MOST_SEATS_OF_A_TICK = 200_000  # in one script: about 0.2 s of Redis; the rest waits in the log
MOST_SEATS_OF_A_DELTA = 4_000  # about 100 KB; beyond it a fresh snapshot is cheaper for everybody
IDLE_SECONDS = 600  # after its last change, an event's picture is dropped here and loaded again when needed
PROBES_KEPT = 60  # readings of the log's end that were not reached yet

log = structlog.get_logger()
tracer = trace.get_tracer("rowlock")


@dataclass(slots=True)
class Pending:
    """What the log said of an event since the last tick: the last word about each seat."""

    lsn: int = 0
    seats: dict[int, Seat | None] = field(default_factory=dict)


@dataclass(slots=True)
class Live:
    """An event that changes: its picture as stored, and the LSN of its last delta."""

    picture: Picture
    lsn: int
    changed: float


class Ingester:
    """`run_once` is a tick, or a try to become the one that ticks."""

    def __init__(self, shard: str, seat_log: SeatLog, store: PictureStore) -> None:
        self.shard, self.seat_log, self.store = shard, seat_log, store
        self.head: Head | None = None
        self.stream: ChangeStream | None = None
        self.pending: dict[int, Pending] = {}
        self.live: dict[int, Live] = {}
        self.position = 0
        self.probes: deque[tuple[int, int]] = deque(maxlen=PROBES_KEPT)
        self.distrust = False  # of the stored pictures: only a new epoch helps

    async def run_once(self) -> bool:
        """False always: the next round comes after the tick's interval. Losing a peer or the lead is no error here:
        this process steps down, and the next round tries again."""
        try:
            if self.stream is None:
                await self.take_over()
            else:
                await self.tick()
        except SlotInUse:
            await self.step_down()
        except (PictureLost, StreamLost, SlotMissing, *StoreError, *DatabaseError) as error:
            log.warning("ingester stepped down", shard=self.shard, cause=str(error))
            metrics.STEPPED_DOWN.labels(self.shard).inc()
            await self.step_down()
        except BaseException:
            await self.step_down()
            raise
        metrics.LEADING.labels(self.shard).set(self.stream is not None)
        return False

    async def take_over(self) -> bool:
        """Becomes the leader, unless there is one. Goes on from the stored pictures, or makes them anew."""
        await self.seat_log.connect()
        if not await self.seat_log.take_lead():
            return False
        self._forget()
        if self.distrust or not await self._resume():
            await self._start_epoch()
            self.distrust = False
        return True

    async def tick(self) -> None:
        """Reads, stores, acknowledges, in that order."""
        with tracer.start_as_current_span("seatfeed.tick"), metrics.TICK_SECONDS.labels(self.shard).time():
            await self.read_log()
            await self.write_tick()
        self._drop_idle()

    async def read_log(self) -> None:
        """Up to where the log ended when the tick began, or as far as CATCH_UP_SECONDS go."""
        assert self.stream is not None
        read_time, end = await self.seat_log.probe_log()
        self.probes.append((read_time, end))
        self.stream.ask_position()
        deadline = time.monotonic() + CATCH_UP_SECONDS
        seats = 0
        while self.position < end and seats < MOST_SEATS_OF_A_TICK and (left := deadline - time.monotonic()) > 0:
            batch = await self.stream.read(left)
            for transaction in batch.transactions:
                seats += self._apply(transaction)
            self.position = max(self.position, batch.position)
        metrics.LAG_BYTES.labels(self.shard).set(max(0, end - self.position))
        metrics.LAG_SECONDS.labels(self.shard).set((read_time - self._as_of()) / 1_000_000)

    async def write_tick(self) -> None:
        """One coalesced delta for each event that changed, stored, then acknowledged."""
        assert self.head is not None
        assert self.stream is not None
        writes = [write for event in sorted(self.pending) if (write := await self._write_of(event))]
        await self._store(writes, Head(self.head.epoch, self.head.seq + 1, self.position, self._as_of()))
        self.pending.clear()
        self.stream.acknowledge(self.position)
        metrics.DELTAS.labels(self.shard).inc(len(writes))

    async def step_down(self) -> None:
        """Frees the slot for another process; nothing is lost, for nothing unstored was acknowledged."""
        stream, self.stream = self.stream, None
        if stream is not None:
            await stream.close()
        await self.seat_log.close()
        self._forget()

    async def _resume(self) -> bool:
        """The slot first: whoever reads it is alone, so what is looked at then stays as it is."""
        try:
            self.stream = await self.seat_log.open_stream()
        except SlotMissing:
            return False
        head, slot = await self.store.read_head(), await self.seat_log.get_slot()
        if head is None or slot is None or not covers(head, slot):
            await self.stream.close()
            self.stream = None
            return False
        self.head, self.position = head, head.covered
        await self._store([], replace(head, seq=head.seq + 1))  # from here on a paused predecessor is refused
        log.info("ingester resumed", shard=self.shard, epoch=head.epoch)
        return True

    async def _start_epoch(self) -> None:
        """Every picture anew, from the snapshot that the new slot exports: the log continues exactly there."""
        old = await self.store.read_head()
        read_time, _ = await self.seat_log.probe_log()
        epoch = secrets.token_hex(4)
        async with self.seat_log.new_slot() as (lsn, rows):
            event, seats = 0, dict[int, Seat]()
            async for row in rows:
                if row.event != event and seats:
                    await self.store.copy_event(epoch, event, lsn - 1, seats)
                    seats = {}
                event = row.event
                seats[row.seat_id] = row.seat
            if seats:
                await self.store.copy_event(epoch, event, lsn - 1, seats)
        self.stream = await self.seat_log.open_stream()
        self.head, self.position = Head(epoch, 1, lsn, read_time), lsn
        await self.store.start_epoch(old, self.head)
        metrics.EPOCHS.labels(self.shard).inc()
        log.info("ingester started an epoch", shard=self.shard, epoch=epoch)

    def _apply(self, transaction: Transaction) -> int:
        """Takes a whole transaction in, so that none is ever split over two deltas."""
        assert self.head is not None
        if transaction.end_lsn <= self.head.covered:
            return 0
        for change in transaction.changes:
            if change.kind is Kind.TRUNCATE:
                self.distrust = True
                raise PictureLost("the table was truncated")
            for event, seat_id, seat in seats_of(change):
                pending = self.pending.setdefault(event, Pending())
                pending.lsn = transaction.commit_lsn
                pending.seats[seat_id] = seat
        return len(transaction.changes)

    async def _write_of(self, event: int) -> EventWrite | None:
        """None when the event's seats stand as they stood at the last tick."""
        pending = self.pending[event]
        live = await self._live(event)
        replaced = any(
            live.picture.section_of.get(seat_id) != (seat.section if seat else None)
            for seat_id, seat in pending.seats.items()
        )
        changes = [change for item in pending.seats.items() if (change := live.picture.put(*item))]
        if not changes:
            return None
        delta = delta_of(live.lsn, pending.lsn, changes, replaced)
        live.lsn, live.changed = pending.lsn, time.monotonic()
        seats = {change.seat_id: pending.seats[change.seat_id] for change in changes}
        return EventWrite(event, delta, seats, empty=not live.picture.section_of)

    async def _live(self, event: int) -> Live:
        if event not in self.live:
            assert self.head is not None
            stored = await self.store.load_picture(self.head.epoch, event)
            seats, lsn = (stored.seats, stored.lsn) if stored else ({}, 0)
            self.live[event] = Live(Picture(seats), lsn, time.monotonic())
        return self.live[event]

    async def _store(self, writes: list[EventWrite], new: Head) -> None:
        assert self.head is not None
        await self.store.store_tick(self.head, new, writes)
        self.head = new

    def _as_of(self) -> int:
        """The newest time whose every commit has been read: where the log ended was read beside it."""
        assert self.head is not None
        return max([self.head.as_of, *(read_time for read_time, end in self.probes if end <= self.position)])

    def _drop_idle(self) -> None:
        now = time.monotonic()
        for event in [event for event, live in self.live.items() if now - live.changed > IDLE_SECONDS]:
            del self.live[event]
        metrics.PICTURES.labels(self.shard, "ingester").set(len(self.live))

    def _forget(self) -> None:
        self.head, self.position = None, 0
        self.pending.clear()
        self.live.clear()
        self.probes.clear()


def covers(head: Head, slot: Slot) -> bool:
    """Whether the log continues the stored pictures: nothing was acknowledged that they lack, and they show nothing
    that this server does not know (a standby promoted without its last commits)."""
    return not slot.lost and slot.confirmed <= head.covered <= slot.current


def delta_of(prev: int, lsn: int, changes: list[SeatChange], replaced: bool) -> Delta:
    """`replaced`: a seat came, went or moved, which cannot be told as a change of state."""
    if replaced or len(changes) > MOST_SEATS_OF_A_DELTA:
        return Delta(prev, lsn, reset=True)
    return Delta(prev, lsn, tuple(changes))
