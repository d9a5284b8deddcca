"""What the store takes and returns. Ids are numbers and uuids here, with the shard that makes them text beside them.

What a hold makes one of is a named tuple: five times as quick to make as a frozen dataclass.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from chassis.ids import format_id


def id_text(prefix: str, shard: str, number: int | UUID) -> str:
    """An id as callers see it: `hld_s1_…`."""
    return format_id(prefix, shard, number.int if isinstance(number, UUID) else number)


class HoldRequest(NamedTuple):
    """One element of a batch. Seats ascending, without repeats. `plan`: the version of the event by whose plan the
    house chose them; 0: the buyer picked them."""

    account: str
    event: int
    key: str
    fingerprint: bytes
    seats: tuple[int, ...]
    plan: int = 0


class HoldVerdict(NamedTuple):
    """What `hold_seats` decided about one request; see functions/hold_seats.sql for the words."""

    word: str
    version: int = 0
    hold: UUID | None = None
    expires_at: datetime | None = None
    used: int = 0
    retry_time: datetime | None = None
    lost_seats: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AreaVerdict:
    """What `hold_area` decided; see functions/areas.sql for the words."""

    word: str
    hold: UUID | None
    used: int
    few: int
    retry_time: datetime | None


class OrderRequest(NamedTuple):
    """What is to become of a hold."""

    account: str
    hold: UUID
    key: str
    fingerprint: bytes
    email: str
    payment_token: str


@dataclass(frozen=True, slots=True)
class OrderVerdict:
    """What `create_order` decided."""

    word: str
    order: UUID | None
    event: int | None


@dataclass(frozen=True, slots=True)
class CancelVerdict:
    """What `cancel_order` decided, and the order's state after it."""

    word: str
    state: str


@dataclass(frozen=True, slots=True)
class OutcomeVerdict:
    """What `record_payment_outcome` made of an outcome, and of whose order; unset when there is no such order."""

    word: str
    state: str
    event: int
    account: str


@dataclass(frozen=True, slots=True)
class AbandonAnswer:
    """What payments knows of an order that it was asked to give up. `outcome` is SUCCEEDED or FAILED, which are final,
    or UNKNOWN: it is finding out."""

    outcome: str
    reason: str


class PricedSeat(NamedTuple):
    """A seat with its labels, and its price in minor units."""

    seat: int
    section: str
    row: str
    number: str
    price: int


@dataclass(frozen=True, slots=True)
class HeldArea:
    """Units of an area, with the price of one in minor units."""

    area: int
    name: str
    quantity: int
    price: int


class Hold(NamedTuple):
    """A hold as it is read: its state judged by the database's clock. Amounts in minor units."""

    shard: str
    hold: UUID
    event: int
    state: str
    expires_at: datetime
    seats: tuple[PricedSeat, ...]
    currency: str
    total: int
    fees: int
    order: UUID | None = None
    area: HeldArea | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """An order as its buyer reads it. Amounts in minor units."""

    shard: str
    order: UUID
    event: int
    hold: UUID
    account: str
    state: str
    payment_state: str
    tickets_state: str
    seats: tuple[PricedSeat, ...]
    currency: str
    total: int
    fees: int
    create_time: datetime
    failure_reason: str
    area: HeldArea | None


@dataclass(frozen=True, slots=True)
class EventOrder:
    """An order as an operator reads it."""

    shard: str
    order: UUID
    account: str
    state: str
    payment_state: str
    seats: tuple[int, ...]
    currency: str
    total: int
    ticket_count: int
    quantity: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """An entitlement to one seat, or to one unit of an area."""

    shard: str
    ticket: UUID
    order: UUID
    event: int
    state: str
    seat: PricedSeat | None
    area: HeldArea | None
    currency: str


@dataclass(frozen=True, slots=True)
class Sale:
    """An event's rules for selling."""

    start: datetime
    end: datetime
    tickets_per_account: int


@dataclass(frozen=True, slots=True)
class Offer:
    """What an event has to sell, by one version: its rules, and its seats as columns, ascending by id. Amounts in minor
    units, by tier."""

    version: int
    sale: Sale
    currency: str
    prices: Mapping[int, int]
    fees: Mapping[int, int]
    seats: Sequence[int]
    tiers: Sequence[int]
    sections: Sequence[str]
    row_names: Sequence[str]
    numbers: Sequence[str]

    def price(self, seats: Iterable[int]) -> tuple[tuple[PricedSeat, ...], int]:
        """Seats of the event with their labels and prices, and the fees of all of them."""
        places = [bisect_left(self.seats, seat) for seat in seats]
        priced = tuple(
            PricedSeat(
                self.seats[place],
                self.sections[place],
                self.row_names[place],
                self.numbers[place],
                self.prices[self.tiers[place]],
            )
            for place in places
        )
        return priced, sum(self.fees[self.tiers[place]] for place in places)


@dataclass(frozen=True, slots=True)
class Tier:
    """A price; amounts in minor units."""

    tier: int
    name: str
    currency: str
    price: int
    fee: int


@dataclass(frozen=True, slots=True)
class Area:
    """General admission: so many units without seats, of one tier."""

    area: int
    name: str
    capacity: int
    tier: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """An event as catalog hands it over. Seats as columns: there may be 200,000. Where they stand: the index of the
    section in the plan and of the row in its section, the place in the row, each from 0, and plan units."""

    version: int
    name: str
    sale: Sale
    hold_duration: timedelta
    onsale_hold_duration: timedelta
    onsale_window: timedelta  # zero: there is none
    selection_mode: str
    holds_per_account: int | None
    resale: bool
    cancel_end: datetime | None
    focal: tuple[int, int] | None
    currency: str
    tiers: tuple[Tier, ...]
    areas: tuple[Area, ...]
    seats: tuple[int, ...]
    seat_tiers: tuple[int, ...]
    sections: tuple[str, ...]
    row_names: tuple[str, ...]
    numbers: tuple[str, ...]
    section_indexes: tuple[int, ...]
    row_indexes: tuple[int, ...]
    places: tuple[int, ...]
    x: tuple[int, ...]
    y: tuple[int, ...]
    accessible: tuple[bool, ...]
    companion: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class AreaCounts:
    """Units of an area by what has them, at one moment."""

    area: int
    available: int
    held: int
    pending_payment: int
    sold: int
    blocked: int


@dataclass(frozen=True, slots=True)
class Overdue:
    """Holds whose time and grace are over and that were not swept: how many, and for how many seconds the oldest."""

    holds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Ask:
    """What a buyer of the best available seats wants: `accessible` of the `quantity` need an accessible seat."""

    quantity: int
    section: str = ""
    tier: int | None = None
    accessible: int = 0


@dataclass(frozen=True, slots=True)
class PlacedSeats:
    """Where the seats of an event stand, by one version: columns, in the plan's order. `focal` is where people look."""

    version: int
    focal: tuple[int, int] | None
    tiers: Sequence[int]  # all of the event's
    seats: Sequence[int]
    seat_tiers: Sequence[int]
    sections: Sequence[str]
    row_indexes: Sequence[int]
    x: Sequence[int]
    y: Sequence[int]
    accessible: Sequence[int]  # 0 or 1
    companion: Sequence[int]


@dataclass(frozen=True, slots=True)
class SeatStates:
    """What may be had of the seats of a version at one moment, a letter each, ascending by id: F can be held now, H may
    come back, X is gone."""

    version: int
    letters: bytes


@dataclass(frozen=True, slots=True)
class SeatCounts:
    """Seats of an event by state, at one moment."""

    available: int
    held: int
    pending_payment: int
    sold: int
    blocked: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An invariant, checked on a shard: how many rows break it, and at most ten of them; or why that is not known."""

    shard: str
    name: str
    description: str
    violations: int = 0
    examples: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class EventSales:
    """What happened at an event since the last report."""

    event_id: str
    commits: int
    conflicts: int
    finished_accounts: tuple[str, ...]
