"""The picture that best available chooses from: which seats of an event are free, as this process knows it.

It is a hint, never the truth: the guarded statement decides, and a picture that is out of date costs a lost race. Read
from the database by one statement, by one reader at a time, while somebody asks; in between this process's own holds,
and the seats that it lost to others, are marked at once. What a call of this process has in its hands is not free for
the next one, so calls of one process never race each other.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from operator import itemgetter, or_
from typing import Any, NamedTuple

from prometheus_client import Counter, Histogram

from services.booking.best_available import Party
from services.booking.errors import EventNotFound
from services.booking.rows import PlacedSeats, SeatStates
from services.booking.seat_plan import Plan, make_plan
from services.booking.steps import ROWS_OF_A_STEP, Steps, in_turns

MOST_EVENTS = 64  # whose pictures are kept: at 18,000 seats, some 10 MB each
FRESH_SECONDS = 0.25  # a picture that is older is read again, behind the call that finds it so
STALE_SECONDS = 1.0  # one that is older is not used before it was read again
PAUSE_SECONDS = 0.05  # at least, between two readings; a refusal waits for one that began after it was asked
PAUSE_FACTOR = 4  # … and so many times as long as the reading took: a fifth of one connection, however large the event
MOST_PRESSURE = 127  # from there on a wider spread saves no races

READS = Histogram(
    "booking_picture_seconds", "Time to read the picture of an event", buckets=(0.002, 0.01, 0.05, 0.2, 1)
)
FAILED = Counter("booking_picture_failures_total", "Pictures that could not be read")

AVAILABLE, COMING = (bytes(ord("1") if letter == ord(wanted) else ord("0") for letter in range(256)) for wanted in "FH")


class Look(NamedTuple):
    """At a picture, at one moment: what long work may go by while the picture goes on."""

    free: list[int]
    in_hand: bool  # something is, and may come back
    began: float  # the reading that it is of


class Picture:
    """The seats of one version of an event: masks, one for each row of the plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.free = [0] * len(plan.rows)  # can be given out: read as free, not lost since, in no call's hands
        self.coming = [0] * len(plan.rows)  # held by others or being paid for
        self.in_hand: dict[int, int] = {}  # by row
        self.began = float("-inf")  # the last reading that succeeded, by the loop's clock
        self._seen = [0] * len(plan.rows)  # `free`, and what is in hand
        self._marks: list[tuple[int, int]] = []  # since the reading that is under way began
        self._arrange = None if plan.ascending is None else itemgetter(*plan.ascending)

    def apply(self, letters: bytes, began: float = 0.0) -> Steps[None]:
        """What a reading found; what was marked since it began is newer, and stays. Nothing is seen of it before the
        end, when all is."""
        if self._arrange:
            letters = bytes(self._arrange(letters))
            yield
        seen = yield from self._masks(letters.translate(AVAILABLE))
        coming = yield from self._masks(letters.translate(COMING))
        for row, mask in self._marks:
            seen[row] &= ~mask
            coming[row] |= mask
        self._seen, self.coming, self.free, self.began = seen, coming, seen.copy(), began
        for row, mask in self.in_hand.items():
            self.free[row] &= ~mask

    def look(self) -> Look:
        """What is so at this moment."""
        return Look(self.free.copy(), bool(self.in_hand), self.began)

    def has(self, party: Party) -> bool:
        """All of its seats can be given out."""
        return not any(block.mask & ~self.free[block.row] for block in party)

    def unsold(self) -> list[int]:
        """What is free or may come back."""
        return list(map(or_, self._seen, self.coming))

    def reading(self) -> None:
        """A reading begins: what was marked before it will be in it."""
        self._marks.clear()

    def take(self, party: Party) -> None:
        """Into the hands of a call."""
        for block in party:
            self.in_hand[block.row] = self.in_hand.get(block.row, 0) | block.mask
            self.free[block.row] &= ~block.mask

    def give_back(self, party: Party) -> None:
        """Out of the call's hands; what was marked meanwhile is gone all the same."""
        for block in party:
            busy = self.in_hand.pop(block.row, 0) & ~block.mask
            if busy:
                self.in_hand[block.row] = busy
            self.free[block.row] = self._seen[block.row] & ~busy

    def mark(self, seats: Iterable[int]) -> None:
        """Held, by this process or by whoever was faster."""
        for seat in seats:
            row, bit = self.plan.places[seat]
            self._marks.append((row, 1 << bit))
            self._seen[row] &= ~(1 << bit)
            self.free[row] &= ~(1 << bit)
            self.coming[row] |= 1 << bit

    def _masks(self, digits: bytes) -> Steps[list[int]]:
        """By row, from a digit for each seat in the plan's order. A row's first seat is its lowest bit."""
        masks, start = [], 0
        for row in self.plan.rows:
            if not row.number % ROWS_OF_A_STEP:
                yield
            end = start + len(row.seats)
            masks.append(int(digits[start:end][::-1], 2))
            start = end
        return masks


class Watch:
    """Keeps the picture of one event. `load` reads its plan, `look` its states."""

    def __init__(
        self, load: Callable[[], Awaitable[PlacedSeats | None]], look: Callable[[], Awaitable[SeatStates | None]]
    ) -> None:
        self.load, self.look = load, look
        self.picture: Picture | None = None
        self.calls = 0  # under way in this process
        self.pressure = 0  # of other processes: grows with every lost race, halves with every reading
        self.next = float("-inf")  # reading may begin
        self._reading: asyncio.Task[None] | None = None

    async def get(self) -> Picture:
        """The picture, at most STALE_SECONDS old. Raises EventNotFound, or what the reading raised."""
        now = asyncio.get_running_loop().time()
        if self.picture is None or now - self.picture.began > STALE_SECONDS:
            await self._read()
        elif now - self.picture.began > FRESH_SECONDS:
            self._start()
        assert self.picture
        return self.picture

    async def get_since(self, moment: float) -> Picture:
        """A picture whose reading began no earlier than `moment`, by the loop's clock."""
        while self.picture is None or self.picture.began < moment:
            await self._read()
        return self.picture

    def raced(self) -> None:
        """Somebody else was faster."""
        self.pressure = min(2 * self.pressure + 1, MOST_PRESSURE)

    def crowd(self) -> int:
        """Among how many candidates to spread buyers: 1 for a buyer alone, two more for each of the others here, and
        more for those elsewhere, whom lost races tell of; a single one tells of nobody."""
        return max(2 * self.calls - 1, 1) + self.pressure // 2

    async def _read(self) -> None:
        await asyncio.shield(self._start())  # one caller that leaves does not end it for the others

    def _start(self) -> "asyncio.Task[None]":
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_once())
            self._reading.add_done_callback(_count_failure)
        return self._reading

    async def _read_once(self) -> None:
        loop = asyncio.get_running_loop()
        wait = self.next - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        picture = self.picture or await self._load()
        while True:
            began = loop.time()
            picture.reading()
            states = await self.look()
            if states is None:
                raise EventNotFound()
            if states.version == picture.plan.version:
                break
            picture = await self._load()  # a new version, or one that came while we loaded
        took = loop.time() - began
        await in_turns(picture.apply(states.letters, began))
        self.picture = picture
        self.next = loop.time() + min(max(PAUSE_SECONDS, PAUSE_FACTOR * took), STALE_SECONDS)
        self.pressure //= 2
        READS.observe(took)

    async def _load(self) -> Picture:
        placed = await self.load()
        if placed is None:
            raise EventNotFound()
        return Picture(await asyncio.to_thread(make_plan, placed))


class Watches:
    """Of the events that were asked for last."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self.most = most
        self.watches: OrderedDict[Any, Watch] = OrderedDict()

    def get(self, key: Any, make: Callable[[], Watch]) -> Watch:
        """The event's, made when there is none."""
        watch = self.watches.get(key)
        if watch is None:
            watch = self.watches[key] = make()
        self.watches.move_to_end(key)
        while len(self.watches) > self.most:
            self.watches.popitem(last=False)
        return watch

    def forget(self, key: Any) -> None:
        """An event that does not exist."""
        self.watches.pop(key, None)


def _count_failure(reading: "asyncio.Task[None]") -> None:
    if not reading.cancelled() and reading.exception():
        FAILED.inc()
