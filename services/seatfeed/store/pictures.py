"""The stored pictures of a shard in Redis, and the list of its recent ticks. All keys of a shard share a hash tag.

seatfeed:{s1}:head                   epoch, seq, covered, as_of of the newest tick: the fence
seatfeed:{s1}:log                    stream of recent ticks, one entry each
seatfeed:{s1}:epochs                 epochs that have keys, also one that is being built
seatfeed:{s1}:<epoch>:events         event → LSN of its last delta
seatfeed:{s1}:<epoch>:seats:<event>  seat → standing and section, as in "oBlock A"
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from services.seatfeed.errors import PictureLost
from services.seatfeed.rows import Delta, Entry, EventWrite, Head, Seat, SeatChange, Standing, StoredPicture

ENTRIES_KEPT = 120  # ticks, so two minutes: longer than any reconnect with its back-off, about 10 MB in a rush
SEATS_AT_ONCE = 5000  # of a picture that is copied: one round trip each
SOCKET_SECONDS = 5.0  # longer than the longest blocking read, shorter than a map may stand still unnoticed

StoreError = (RedisError, OSError)
"""What every method may raise when Redis is away. Whether a write was done is then not known."""


def open_redis(url: str) -> "redis.asyncio.Redis":
    """Without retries of its own: a fenced write that is repeated blindly would be refused."""
    return redis.asyncio.Redis.from_url(
        url, decode_responses=True, socket_timeout=SOCKET_SECONDS, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0)
    )


class PictureStore:
    """One shard. Writers call `store_tick` and `start_epoch`; both are refused to a writer that was overtaken."""

    def __init__(self, client: "redis.asyncio.Redis", shard: str) -> None:
        self._redis: Any = client
        self.prefix = f"seatfeed:{{{shard}}}"
        self.head_key, self.log_key, self.epochs_key = (f"{self.prefix}:{name}" for name in ("head", "log", "epochs"))
        self._store_tick, self._start_epoch, self._load_picture = (
            client.register_script(Path(__file__).with_name(f"{name}.lua").read_text())
            for name in ("store_tick", "start_epoch", "load_picture")
        )

    async def read_head(self) -> Head | None:
        """None before the first epoch, or when Redis lost it."""
        fields = await self._redis.hgetall(self.head_key)
        return _head(fields) if fields else None

    async def list_events(self, epoch: str) -> dict[int, int]:
        """LSN of the last delta, by event."""
        return {int(event): int(lsn) for event, lsn in (await self._redis.hgetall(self._events(epoch))).items()}

    async def load_picture(self, epoch: str, event: int) -> StoredPicture | None:
        """None if the event has no seats. Raises PictureLost if the epoch is over."""
        keys = [self.head_key, self._events(epoch), self._seats(epoch, event)]
        found = await self._load_picture(keys, [epoch, event])
        if found is None:
            raise PictureLost(f"epoch {epoch} is over")
        seq, lsn, flat = found
        if lsn is None:
            return None
        return StoredPicture(int(seq), int(lsn), {int(seat): _seat(text) for seat, text in _pairs(flat)})

    async def store_tick(self, last: Head, new: Head, writes: Sequence[EventWrite]) -> None:
        """Writes everything or nothing. Raises PictureLost unless the stored head is `last`."""
        keys = [self.head_key, self.log_key, self._events(last.epoch)]
        keys += [self._seats(last.epoch, write.event) for write in writes]
        entry = json.dumps({write.event: _delta_json(write.delta) for write in writes}, separators=(",", ":"))
        arguments: list[str | int] = [last.epoch, last.seq, new.seq, new.covered, new.as_of, entry, ENTRIES_KEPT]
        for write in writes:
            arguments += _arguments(write)
        if not await self._store_tick(keys, arguments):
            raise PictureLost(f"tick {new.seq} of epoch {last.epoch} was refused: another writer took over")

    async def copy_event(self, epoch: str, event: int, lsn: int, seats: Mapping[int, Seat]) -> None:
        """A whole event of an epoch that is being built; nobody reads it before `start_epoch`."""
        rows = [(seat_id, _text(seat)) for seat_id, seat in seats.items()]
        await self._redis.sadd(self.epochs_key, epoch)
        await self._redis.hset(self._events(epoch), event, lsn)
        for start in range(0, len(rows), SEATS_AT_ONCE):
            await self._redis.hset(self._seats(epoch, event), mapping=dict(rows[start : start + SEATS_AT_ONCE]))

    async def start_epoch(self, old: Head | None, new: Head) -> None:
        """Shows the new epoch, and removes what others left. Raises PictureLost unless the head is still `old`."""
        seen = [old.epoch, old.seq] if old else ["", ""]
        await self._redis.sadd(self.epochs_key, new.epoch)
        arguments = [*seen, new.epoch, new.covered, new.as_of, ENTRIES_KEPT]
        if not await self._start_epoch([self.head_key, self.log_key], arguments):
            raise PictureLost(f"epoch {new.epoch} was refused: another writer was faster")
        for epoch in await self._redis.smembers(self.epochs_key):
            if epoch != new.epoch:
                await self._drop_epoch(epoch)

    async def read_log(self, after: str, wait_seconds: float) -> list[Entry]:
        """Entries after one, oldest first; waits for the next if there is none yet."""
        answer = await self._redis.xread({self.log_key: after}, count=ENTRIES_KEPT, block=int(wait_seconds * 1000))
        return [_entry(entry_id, fields) for _key, entries in answer or [] for entry_id, fields in entries]

    async def recent_log(self) -> list[Entry]:
        """All entries that are kept, oldest first."""
        return [_entry(entry_id, fields) for entry_id, fields in await self._redis.xrange(self.log_key)]

    async def _drop_epoch(self, epoch: str) -> None:
        for event in await self._redis.hkeys(self._events(epoch)):
            await self._redis.unlink(self._seats(epoch, event))
        await self._redis.unlink(self._events(epoch))
        await self._redis.srem(self.epochs_key, epoch)

    def _events(self, epoch: str) -> str:
        return f"{self.prefix}:{epoch}:events"

    def _seats(self, epoch: str, event: int | str) -> str:
        return f"{self.prefix}:{epoch}:seats:{event}"


def _arguments(write: EventWrite) -> Iterator[str | int]:
    put = {seat_id: seat for seat_id, seat in write.seats.items() if seat is not None}
    yield from (write.event, write.delta.lsn, int(write.empty), len(put))
    for seat_id, seat in put.items():
        yield from (seat_id, _text(seat))
    yield len(write.seats) - len(put)
    yield from (seat_id for seat_id, seat in write.seats.items() if seat is None)


def _delta_json(delta: Delta) -> list[Any]:
    changes = [[change.seat_id, change.section, change.standing.value, int(change.shown)] for change in delta.changes]
    return [delta.prev, delta.lsn, int(delta.reset), changes]


def _delta(prev: int, lsn: int, reset: int, changes: Iterable[tuple[int, str, str, int]]) -> Delta:
    made = (SeatChange(seat, section, Standing(standing), bool(shown)) for seat, section, standing, shown in changes)
    return Delta(prev, lsn, tuple(made), bool(reset))


def _entry(entry_id: str, fields: Mapping[str, str]) -> Entry:
    deltas = {int(event): _delta(*parts) for event, parts in json.loads(fields["deltas"]).items()}
    return Entry(entry_id, _head(fields), deltas)


def _head(fields: Mapping[str, str]) -> Head:
    return Head(fields["epoch"], *(int(fields[name]) for name in ("seq", "covered", "as_of")))


def _pairs(flat: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _text(seat: Seat) -> str:
    return seat.standing.value + seat.section


def _seat(text: str) -> Seat:
    return Seat(text[1:], Standing(text[0]))
