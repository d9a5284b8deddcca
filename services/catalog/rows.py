"""What the store returns, and what rules hand to each other."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Venue:
    """A place with seats. `venue_id` is 0 before it is stored."""

    venue_id: int
    name: str
    city: str
    country_code: str
    time_zone: str


@dataclass(frozen=True, slots=True)
class VenueSummary:
    """A venue with the facts of its plan's newest version."""

    venue: Venue
    version: int
    seat_count: int
    categories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeatRow:
    """Seats side by side, in order of standing; the lists are of one length. Categories count from 1.

    `first_seat_id` is 0 before the plan is stored; the others count up from it.
    """

    section: str
    row_name: str
    first_seat_id: int
    numbers: list[str]
    xs: list[int]
    ys: list[int]
    categories: list[int]
    accessible: list[bool]
    companion: list[bool]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A seating plan as it was read from a file. Lengths are plan units, y grows downwards."""

    width: int
    height: int
    focal_x: int
    focal_y: int
    categories: list[str]
    colors: list[str]
    rows: list[SeatRow]

    @property
    def seat_count(self) -> int:
        return sum(len(row.numbers) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Plan:
    """A stored version of a venue's seat plan."""

    plan_id: int
    venue_id: int
    version: int
    width: int
    height: int
    focal_x: int
    focal_y: int
    seat_count: int
    rows: tuple[SeatRow, ...]


@dataclass(frozen=True, slots=True)
class PlanCategories:
    """What an event must set prices for. Colors are in the order of categories."""

    plan_id: int
    categories: tuple[str, ...]
    colors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tier:
    """A price of an event, in minor units of its currency."""

    tier: int
    name: str
    price_minor: int
    fee_minor: int
    color: str


@dataclass(frozen=True, slots=True)
class Area:
    """A part of an event without seats: so many may enter. Its price is the tier of that number."""

    area_id: int
    name: str
    capacity: int
    tier: int


@dataclass(frozen=True, slots=True)
class SaleRules:
    """How a sale is run, complete. 0 in `onsale_window_seconds` means no window, in `cancel_seconds` no cancelling."""

    tickets_per_account: int
    hold_seconds: int
    onsale_hold_seconds: int
    onsale_window_seconds: int
    best_available_only: bool
    holds_per_account: int
    no_resale: bool
    cancel_seconds: int
    line: bool
    line_capacity: int


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be written. Times are aware."""

    event_id: int
    shard: str
    request_id: str
    name: str
    performer: str
    description: str
    plan_id: int
    start_time: datetime
    sale_start_time: datetime
    sale_end_time: datetime
    currency_code: str
    rules: SaleRules
    tiers: tuple[Tier, ...]
    areas: tuple[Area, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """An event with its venue, its prices, dearest first, and its areas. `event_id` is the number in the public id."""

    event_id: int
    shard: str
    version: int
    name: str
    performer: str
    description: str
    venue: Venue
    plan_id: int
    plan_version: int
    seat_count: int
    start_time: datetime
    sale_start_time: datetime
    sale_end_time: datetime
    currency_code: str
    tiers: tuple[Tier, ...]
    areas: tuple[Area, ...]
    rules: SaleRules
    published_time: datetime | None

    @property
    def line_policy(self) -> "LinePolicy":
        return LinePolicy(
            self.event_id,
            self.shard,
            self.version,
            self.rules.line,
            self.rules.line_capacity,
            self.sale_start_time,
            self.sale_end_time,
        )


@dataclass(frozen=True, slots=True)
class LinePolicy:
    """How an event's line is run, from which version of the event on."""

    event_id: int
    shard: str
    version: int
    line: bool
    line_capacity: int
    sale_start_time: datetime
    sale_end_time: datetime


class Position(NamedTuple):
    """Where in the order of a list a page begins: just after this event."""

    start_time: datetime
    event_id: int


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Conditions of a list, all of which must hold; None does not filter. Days are the venue's."""

    words: str | None = None
    city: str | None = None
    date_from: date | None = None
    date_to: date | None = None
