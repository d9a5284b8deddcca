"""What the store returns and takes. Times are milliseconds since 1970 by the store's clock; 0 is no bound."""

from dataclasses import dataclass
from enum import StrEnum


class PositionState(StrEnum):
    """Where an account stands; the names are the proto's."""

    WAITING = "WAITING"
    ADMITTED = "ADMITTED"
    ENTERED = "ENTERED"


class LineState(StrEnum):
    """What a line is doing; the names are the proto's."""

    OPEN = "OPEN"
    BEFORE_SALE = "BEFORE_SALE"
    MOVING = "MOVING"
    PAUSED = "PAUSED"
    ENDED = "ENDED"
    SOLD_OUT = "SOLD_OUT"


class Stop(StrEnum):
    """Why the line stands although the zone may have room: no seat is open."""

    NONE = ""
    ALL_HELD = "ALL_HELD"
    SOLD_OUT = "SOLD_OUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The times that hold for every line, in seconds."""

    grace_seconds: int = 60
    lease_seconds: int = 120
    max_stay_seconds: int = 900
    heartbeat_seconds: int = 20
    admission_token_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Policy:
    """How an event's line is run."""

    version: int
    line: bool
    capacity: int
    sale_start: int
    sale_end: int


@dataclass(frozen=True, slots=True)
class Position:
    """An account's position, and what is needed to say how long it will take."""

    state: PositionState
    epoch: int
    position: int
    admitted_through: int
    rate_per_second: float
    as_of: int
    sale_end: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to be inside."""

    as_of: int
    expires: int
    max_stay: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line, without any person in it. `moved` is when it last moved or had no reason to; `ticked` when a tick last
    ran, and `room` how many positions that tick found room for."""

    epoch: int
    line: bool
    capacity: int
    sale_start: int
    sale_end: int
    tail: int
    admitted_through: int
    in_flight: int
    as_of: int
    moved: int
    ticked: int
    room: int
    stop: Stop
    rate_per_second: float
    claim_rate: float
    commits_per_second: float
    conflicts_per_second: float

    @property
    def length(self) -> int:
        """Positions that wait."""
        return self.tail - self.admitted_through


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick did, and by how many positions: NO_LINE, TOO_SOON, NOT_ON_SALE, SOLD_OUT, ALL_HELD, STOOD or
    ADVANCED."""

    outcome: str
    advanced: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How many seats of an event can be held now, and are held, by the seat feed's picture of `as_of`."""

    open: int
    held: int
    as_of: int


@dataclass(frozen=True, slots=True)
class Sales:
    """What happened inside one event since a booking process last reported."""

    event_id: str
    commits: int
    conflicts: int
    finished_accounts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant at one event: how often it is broken, with examples."""

    name: str
    violations: int
    examples: tuple[str, ...]
