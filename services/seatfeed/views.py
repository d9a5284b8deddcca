"""What the public may see of one event: snapshots, updates, and who listens to them."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from services.seatfeed.errors import SectionNotFound
from services.seatfeed.picture import Picture
from services.seatfeed.rows import Delta, Head, Seat, Snapshot, StoredPicture, Update


class Subscriber(Protocol):
    """One stream. It must not wait, and is told nothing twice."""

    def deliver(self, update: Update) -> None:
        """Called in the order of the deltas."""


def watermark_of(epoch: str, lsn: int) -> str:
    """`epoch.LSN`: within an epoch the order of the texts is the order of the commits."""
    return f"{epoch}.{lsn:016x}"


def parse_watermark(text: str) -> tuple[str, int] | None:
    """None for anything that `watermark_of` would not have written."""
    epoch, _, digits = text.partition(".")
    if len(digits) != 16 or not set(digits) <= set("0123456789abcdef"):
        return None
    return epoch, int(digits, 16)


class View:
    """One event in one process. Changed only by whoever follows the shard; nothing here waits."""

    def __init__(self, head: Head, stored: StoredPicture) -> None:
        self.head, self.seq, self.lsn = head, stored.seq, stored.lsn
        self.picture = Picture(stored.seats)
        self.recent: list[Delta] = []  # that led to the picture, oldest first, without a gap
        self.subscribers: dict[str, set[Subscriber]] = {}
        self.used = 0.0
        self._snapshots: dict[str, Snapshot] = {}
        self._updates: dict[tuple[str, int], Update] = {}

    @property
    def watermark(self) -> str:
        """Of the event's last delta."""
        return watermark_of(self.head.epoch, self.lsn)

    def advance(self, head: Head, delta: Delta | None) -> None:
        """A tick has passed. A delta must not be a reset."""
        self.head, self.seq = head, head.seq
        self._snapshots.clear()
        self._updates.clear()
        if delta is not None:
            for change in delta.changes:
                self.picture.put(change.seat_id, Seat(change.section, change.standing))
            self.lsn = delta.lsn
            self.recent.append(delta)

    def remember(self, deltas: Iterable[Delta], oldest: int) -> None:
        """Keeps the deltas that end after `oldest` and follow each other up to the picture."""
        self.recent = []
        for delta in deltas:
            if delta.reset or (self.recent and self.recent[-1].lsn != delta.prev):
                self.recent = []
            if not delta.reset and oldest < delta.lsn <= self.lsn:
                self.recent.append(delta)
        if self.recent and self.recent[-1].lsn != self.lsn:
            self.recent = []

    def forget(self, oldest: int) -> None:
        """Drops deltas up to one that is no longer kept anywhere."""
        self.recent = [delta for delta in self.recent if delta.lsn > oldest]

    def snapshot(self, section: str) -> Snapshot:
        """The same object until the next tick. Refuses a section that is not there."""
        if section not in self._snapshots:
            seats = self.picture.public_seats(section) if self._require(section) else ()
            self._snapshots[section] = Snapshot(self.head.as_of, self.watermark, self.picture.all_counts(), seats)
        return self._snapshots[section]

    def first_update(self, section: str) -> Update:
        """For one that begins: all recent deltas as one, so that a snapshot taken up to two minutes ago can go on."""
        return self._since(self.recent[0].prev if self.recent else self.lsn, section)

    def resume(self, last_seen: str, section: str) -> Update | None:
        """For one that saw a watermark: what it missed as one update, or the word to start over; None if nothing.

        A watermark that was never given out is a resync too: an update is kept for each one that may be resumed from.
        """
        seen = parse_watermark(last_seen)
        if seen is None or seen[0] != self.head.epoch:
            return self.resync()
        if seen[1] >= self.lsn:
            return None
        if all(delta.prev != seen[1] for delta in self.recent):
            return self.resync()
        return self._since(seen[1], section)

    def resync(self) -> Update:
        """Everything before is void."""
        return Update(self.watermark, self.watermark, self.head.as_of, resync=True)

    def subscribe(self, section: str, subscriber: Subscriber) -> None:
        """Refuses a section that is not there."""
        self._require(section)
        self.subscribers.setdefault(section, set()).add(subscriber)

    def unsubscribe(self, section: str, subscriber: Subscriber) -> None:
        """May be repeated."""
        listening = self.subscribers.get(section, set())
        listening.discard(subscriber)
        if not listening:
            self.subscribers.pop(section, None)

    def deliveries(self, prev: int | None) -> Iterator[tuple[Subscriber, Update]]:
        """The newest delta, after `prev`, for each subscriber; a resync with None. Consistent while it is walked."""
        pairs = [
            (self.resync() if prev is None else self._since(prev, section), list(listening))
            for section, listening in self.subscribers.items()
        ]
        return ((subscriber, update) for update, listening in pairs for subscriber in listening)

    def _since(self, prev: int, section: str) -> Update:
        """All that changed after `prev`, in absolute values as of now."""
        if (section, prev) not in self._updates:
            deltas = [delta for delta in self.recent if delta.lsn > prev]
            touched = sorted({change.section for delta in deltas for change in delta.changes})
            shown = {
                change.seat_id
                for delta in deltas
                for change in delta.changes
                if change.shown and section and change.section == section
            }
            standing = self.picture.sections.get(section, {})
            self._updates[section, prev] = Update(
                watermark_of(self.head.epoch, prev),
                self.watermark,
                self.head.as_of,
                tuple(self.picture.counts(name) for name in touched),
                tuple((seat_id, standing[seat_id].public) for seat_id in sorted(shown)),
            )
        return self._updates[section, prev]

    def _require(self, section: str) -> bool:
        if section and section not in self.picture.sections:
            raise SectionNotFound
        return bool(section)
