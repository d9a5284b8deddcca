"""From the stored ticks of one shard to its subscribers. Every process follows, also the one that ingests.

When the store is away, what was seen last is served on, with its true age; booking is never asked.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterator

import structlog

from services.seatfeed import metrics
from services.seatfeed.errors import EventNotFound, PictureLost, PictureMissing
from services.seatfeed.rows import Delta, Entry, Head, StoredPicture, Update
from services.seatfeed.store.pictures import ENTRIES_KEPT, PictureStore, StoreError
from services.seatfeed.views import Subscriber, View

WAIT_SECONDS = 2.0  # for the next entry; two ticks
AGAIN_SECONDS = 0.5  # after the store was away, or before the first epoch
IDLE_SECONDS = 600  # a picture that nobody asks for is dropped, and loaded again when somebody does
MOST_PICTURES = 200  # without subscribers: about 4 MB each for an arena of 18,000 seats
LOADS_AT_ONCE = 8  # of pictures, each of a few MB and a connection, when everybody comes back to many events
DELIVERIES_AT_ONCE = 500  # about 5 ms, then others may run

log = structlog.get_logger()


class Follower:
    """`run_once` reads what was stored since; the other methods are for callers, and never wait for it."""

    def __init__(self, shard: str, store: PictureStore) -> None:
        self.shard, self.store = shard, store
        self.head: Head | None = None
        self.events: set[int] = set()
        self.entries: deque[Entry] = deque(maxlen=ENTRIES_KEPT)
        self.views: dict[int, View] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)

    async def run_once(self) -> bool:
        """Whether to come again at once."""
        try:
            if self.head is None:
                await self._begin()
            else:
                await self._follow(self.head)
        except (PictureLost, *StoreError) as error:
            log.warning("ticks cannot be read", shard=self.shard, cause=str(error))
            metrics.FOLLOWING.labels(self.shard).set(0)
            return False
        metrics.FOLLOWING.labels(self.shard).set(self.head is not None)
        self._drop_idle()
        return self.head is not None

    async def view(self, event: int) -> View:
        """The event's view, loaded once for all who ask meanwhile. Refuses EVENT_NOT_FOUND, or UNAVAILABLE."""
        if event not in self.views:
            await self._load_once(event)
        if event not in self.events:
            raise EventNotFound
        view = self.views[event]
        view.used = time.monotonic()
        return view

    async def subscribe(
        self, event: int, section: str, subscriber: Subscriber, last_seen: str = ""
    ) -> tuple[View, Update | None]:
        """The view, and what the subscriber must be told first; from then on it is told every delta."""
        view = await self.view(event)
        view.subscribe(section, subscriber)
        return view, view.resume(last_seen, section) if last_seen else view.first_update(section)

    async def _begin(self) -> None:
        """Reads where the store stands. Views that were served meanwhile are void: their subscribers start over."""
        head = await self.store.read_head()
        if head is None:
            return
        entries = await self.store.recent_log()
        events = await self.store.list_events(head.epoch)
        if not entries:
            raise PictureLost("the list of recent ticks is gone")
        self.entries.clear()
        self.entries.extend(entry for entry in entries if entry.head.epoch == head.epoch)
        self.events = set(events)
        for entry in self.entries:
            self.events.update(entry.deltas)
        self.head = self.entries[-1].head if self.entries else head
        for event in list(self.views):
            await self._reload(event)

    async def _follow(self, head: Head) -> None:
        last_id = self.entries[-1].entry_id if self.entries else "0"
        entries = await self.store.read_log(last_id, WAIT_SECONDS)
        if not entries and await self.store.read_head() != head:
            entries = await self.store.read_log(last_id, 0.001)  # one may have come this moment
            if not entries:
                self.head = None  # the store lost ticks that were seen here, or all of them: begin again
        for entry in entries:
            if self.head is None or (entry.head.epoch, entry.head.seq) != (self.head.epoch, self.head.seq + 1):
                self.head = None
                return
            await self._apply(entry)

    async def _apply(self, entry: Entry) -> None:
        self.head = entry.head
        self.entries.append(entry)
        self.events.update(entry.deltas)
        for event, view in list(self.views.items()):
            delta = entry.deltas.get(event)
            if view.seq >= entry.head.seq:
                continue  # loaded just now, from a newer tick than this
            if delta is not None and delta.reset:
                await self._reload(event)
                continue
            view.advance(entry.head, delta)
            view.forget(self._oldest(event))
            if delta is not None:
                await self._deliver(view, delta.prev)

    async def _deliver(self, view: View, prev: int | None) -> None:
        for number, (subscriber, update) in enumerate(view.deliveries(prev), 1):
            subscriber.deliver(update)
            if number % DELIVERIES_AT_ONCE == 0:
                await asyncio.sleep(0)
        if prev is None:
            metrics.RESYNCS.labels(self.shard).inc()

    async def _load_once(self, event: int) -> None:
        if self.head is None:
            raise PictureMissing
        if event not in self.events:
            raise EventNotFound
        if event not in self._loading:
            task = asyncio.create_task(self._load(event))
            self._loading[event] = task
            task.add_done_callback(lambda done: self._loaded(event, done))
        try:
            await asyncio.shield(self._loading[event])
        except (PictureLost, *StoreError) as error:
            raise PictureMissing from error

    async def _load(self, event: int) -> None:
        async with self._loads:
            view = await self._fetch(event)
        if view is None:
            self.events.discard(event)
            raise EventNotFound
        self.views[event] = view

    def _loaded(self, event: int, task: "asyncio.Task[None]") -> None:
        del self._loading[event]
        if not task.cancelled():
            task.exception()  # whoever asked may be gone; the next one who asks hears of it

    async def _fetch(self, event: int) -> View | None:
        """A view from the store and the ticks that were read here while it was on its way."""
        epoch = self.head.epoch if self.head else ""
        stored = await self.store.load_picture(epoch, event)
        if stored is None:
            return None
        if self.head is None or self.head.epoch != epoch:
            raise PictureLost("the epoch ended while a picture was read")
        view = View(self.head, stored)
        view.remember(self._deltas(event), self._oldest(event))
        for entry in self.entries:
            delta = entry.deltas.get(event)
            if entry.head.seq <= stored.seq:
                continue
            if delta is not None and delta.reset:
                raise PictureLost("the picture was replaced while it was read")
            view.advance(entry.head, delta)
        view.used = time.monotonic()
        return view

    async def _reload(self, event: int) -> None:
        """A new picture in the place of the old, whose subscribers go on with it, told to start over.

        The old one is served until then, and for longer if the store is away.
        """
        old = self.views[event]
        try:
            view = await self._fetch(event)
        except BaseException:
            self.head = None
            raise
        if view is None:
            self.events.discard(event)
            view = View(old.head, StoredPicture(old.seq, old.lsn, {}))
        view.subscribers = old.subscribers
        self.views[event] = view
        await self._deliver(view, None)

    def _deltas(self, event: int) -> Iterator[Delta]:
        return (entry.deltas[event] for entry in self.entries if event in entry.deltas)

    def _oldest(self, event: int) -> int:
        """Recent deltas end after this."""
        return next((delta.prev for delta in self._deltas(event)), 0)

    def _drop_idle(self) -> None:
        """Bounded memory: events that are over are the ones that nobody looks at."""
        silent = sorted((view.used, event) for event, view in self.views.items() if not view.subscribers)
        now = time.monotonic()
        for used, event in silent:
            if now - used > IDLE_SECONDS or len(silent) > MOST_PICTURES:
                del self.views[event]
                silent = silent[1:]
        metrics.PICTURES.labels(self.shard, "readers").set(len(self.views))
