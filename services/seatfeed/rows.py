"""What the stores return, and what goes between the rules. LSNs are numbers, times are microseconds since 1970."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Standing(StrEnum):
    """A seat's state as far as this service cares. The value is what is stored."""

    OPEN = "o"
    HELD = "h"
    TAKEN = "t"

    @property
    def public(self) -> "Standing":
        """Holds are never shown seat by seat."""
        return Standing.TAKEN if self is Standing.TAKEN else Standing.OPEN


class Seat(NamedTuple):
    """Where a seat is and how it stands."""

    section: str
    standing: Standing


class SeatRow(NamedTuple):
    """A row of booking's table."""

    event: int
    seat_id: int
    seat: Seat


class SeatChange(NamedTuple):
    """A seat after a tick; `shown` when its public state changed too."""

    seat_id: int
    section: str
    standing: Standing
    shown: bool


class Counts(NamedTuple):
    """Of one section."""

    section: str
    open: int
    held: int
    taken: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What a tick changed at one event, after the delta that ended at `prev`.

    `reset`: more changed than a delta may carry, or a seat left its section; the picture must be fetched again.
    """

    prev: int
    lsn: int
    changes: tuple[SeatChange, ...] = ()
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The newest stored tick of a shard. The stored pictures show every commit below `covered`."""

    epoch: str
    seq: int
    covered: int
    as_of: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A tick in the shard's list of recent ones: its head, and the events that changed."""

    entry_id: str
    head: Head
    deltas: Mapping[int, Delta]


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """An event as of tick `seq`; `lsn` is the commit of its last delta."""

    seq: int
    lsn: int
    seats: Mapping[int, Seat]


@dataclass(frozen=True, slots=True)
class EventWrite:
    """What a tick writes about one event. A seat of None is gone."""

    event: int
    delta: Delta
    seats: Mapping[int, Seat | None]
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """Of the log. `current` is where the log ends now."""

    confirmed: int
    lost: bool
    current: int


@dataclass(slots=True)
class Snapshot:
    """A picture as the public gets it. One object serves all until the next tick: `encoded` keeps its bytes."""

    as_of: int
    watermark: str
    sections: tuple[Counts, ...]
    seats: tuple[tuple[int, Standing], ...]
    encoded: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Update:
    """A delta as the public gets it, absolute values. One object serves every subscriber, as with Snapshot."""

    prev: str
    watermark: str
    as_of: int
    sections: tuple[Counts, ...] = ()
    seats: tuple[tuple[int, Standing], ...] = ()
    resync: bool = False
    encoded: dict[str, bytes] = field(default_factory=dict)
