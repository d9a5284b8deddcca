"""What the store takes and returns. Ids are numbers and uuids here, with the shard that makes them text beside them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from chassis.ids import format_id


def id_text(prefix: str, shard: str, number: int | UUID) -> str:
    """An id as callers see it: `hld_s1_…`."""
    return format_id(prefix, shard, number.int if isinstance(number, UUID) else number)


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """One element of a batch. Seats ascending, without repeats."""

    account: str
    event: int
    key: str
    fingerprint: bytes
    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HoldVerdict:
    """What `hold_seats` decided about one request; see migrations/0002_hold_seats.sql for the words."""

    word: str
    hold: UUID | None = None
    used: int = 0
    lost_seats: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderVerdict:
    """What `create_order` decided."""

    word: str
    order: UUID | None
    event: int | None


@dataclass(frozen=True, slots=True)
class OutcomeVerdict:
    """What `record_payment_outcome` made of an outcome, and of whose order; unset when there is no such order."""

    word: str
    state: str
    event: int
    account: str


@dataclass(frozen=True, slots=True)
class PricedSeat:
    """A seat with its labels, and its price in minor units."""

    seat: int
    section: str
    row: str
    number: str
    price: int


@dataclass(frozen=True, slots=True)
class Hold:
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
    order: UUID | None


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


@dataclass(frozen=True, slots=True)
class Ticket:
    """An entitlement to one seat."""

    shard: str
    ticket: UUID
    order: UUID
    event: int
    state: str
    seat: PricedSeat
    currency: str


@dataclass(frozen=True, slots=True)
class Sale:
    """An event's rules for selling."""

    start: datetime
    end: datetime
    tickets_per_account: int


@dataclass(frozen=True, slots=True)
class Tier:
    """A price; amounts in minor units."""

    tier: int
    name: str
    currency: str
    price: int
    fee: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """An event as catalog hands it over. Seats as columns, ascending by id: there may be 200,000."""

    version: int
    name: str
    sale: Sale
    hold_duration: timedelta
    currency: str
    tiers: tuple[Tier, ...]
    seats: tuple[int, ...]
    seat_tiers: tuple[int, ...]
    sections: tuple[str, ...]
    row_names: tuple[str, ...]
    numbers: tuple[str, ...]


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
    """An invariant, checked: how many rows break it, and at most ten of them."""

    name: str
    description: str
    violations: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventSales:
    """What happened at an event since the last report."""

    event_id: str
    commits: int
    conflicts: int
    finished_accounts: tuple[str, ...]
