"""What booking refuses, and why."""

from collections.abc import Iterable
from datetime import datetime

from chassis.errors import Code, Contended, Refusal


class IdempotencyKeyRequired(Refusal):
    """The call is only safe to repeat with a key."""

    code = Code.INVALID_ARGUMENT
    reason = "IDEMPOTENCY_KEY_REQUIRED"

    def __init__(self) -> None:
        super().__init__("This call needs an Idempotency-Key of 1 to 255 characters.")


class IdempotencyKeyReused(Refusal):
    """The same key with other content."""

    code = Code.ABORTED
    reason = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another request; a new request needs a new key.")


class SeatUnavailable(Refusal):
    """Somebody was faster. Nothing was held."""

    code = Code.ABORTED
    reason = "SEAT_UNAVAILABLE"

    def __init__(self, lost_seats: Iterable[int]) -> None:
        self.lost_seats = tuple(lost_seats)
        super().__init__(
            "Somebody else was faster with some of these seats; none was held.", lostSeatIds=_list(self.lost_seats)
        )


class SeatNotFound(Refusal):
    """Seats that the event does not have."""

    code = Code.NOT_FOUND
    reason = "SEAT_NOT_FOUND"

    def __init__(self, seats: Iterable[int]) -> None:
        super().__init__("The event has no such seats.", seatIds=_list(seats))


class TooManyTickets(Refusal):
    """Over the event's cap for one account."""

    code = Code.ABORTED
    reason = "TOO_MANY_TICKETS"

    def __init__(self, limit: int, used: int) -> None:
        super().__init__(f"One account may have {limit} tickets for this event.", limit=str(limit), used=str(used))


class HoldBudgetSpent(Refusal):
    """Holding and letting go, again and again."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "HOLD_BUDGET_SPENT"

    def __init__(self, retry_time: datetime) -> None:
        super().__init__(
            "You held and let go too often at this event; try again later.", retryTime=_rfc3339(retry_time)
        )


class NotOnSale(Refusal):
    """Before, after, or never."""

    code = Code.ABORTED
    reason = "NOT_ON_SALE"

    def __init__(self, start: datetime, end: datetime) -> None:
        super().__init__(
            "The event is not on sale at this time.", saleStartTime=_rfc3339(start), saleEndTime=_rfc3339(end)
        )


class SelectionClosed(Refusal):
    """The house chooses the seats."""

    code = Code.ABORTED
    reason = "SELECTION_CLOSED"

    def __init__(self) -> None:
        super().__init__("Seats cannot be picked at this event: ask for the best available ones.")


class PlanChanged(Contended):
    """The house chose by a plan that is the event's no longer: it chooses again."""

    def __init__(self) -> None:
        super().__init__("The event changed meanwhile and nothing was decided; try again.")


class SectionNotFound(Refusal):
    """The event has no such section."""

    code = Code.NOT_FOUND
    reason = "SECTION_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("The event has no such section.")


class TierNotFound(Refusal):
    """The event has no such price."""

    code = Code.NOT_FOUND
    reason = "TIER_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("The event has no such tier.")


class AreaNotFound(Refusal):
    """The event has no such area."""

    code = Code.NOT_FOUND
    reason = "AREA_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("The event has no such area.")


class NoBlock(Refusal):
    """Something is left, but not for so many."""

    code = Code.ABORTED
    reason = "NO_BLOCK"

    def __init__(self, largest: int) -> None:
        super().__init__(
            f"There is nothing left for a party of this size; {largest} could be had.", largest=str(largest)
        )


class TemporarilyUnavailable(Refusal):
    """Others hold all that is left; some of it may come back."""

    code = Code.ABORTED
    reason = "TEMPORARILY_UNAVAILABLE"

    def __init__(self) -> None:
        super().__init__("Others hold all that is left; some of it may come back.")


class SoldOut(Refusal):
    """Nothing is left."""

    code = Code.ABORTED
    reason = "SOLD_OUT"

    def __init__(self) -> None:
        super().__init__("Nothing of what you asked for is left.")


class EventNotFound(Refusal):
    """No such event here."""

    code = Code.NOT_FOUND
    reason = "EVENT_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no such event.")


class HoldNotFound(Refusal):
    """No such hold of the caller's."""

    code = Code.NOT_FOUND
    reason = "HOLD_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("You have no such hold.")


class HoldExpired(Refusal):
    """The hold has ended, and no order came of it."""

    code = Code.ABORTED
    reason = "HOLD_EXPIRED"

    def __init__(self) -> None:
        super().__init__("The hold has ended; hold the seats again.")


class OrderExists(Refusal):
    """The hold became an order under another key."""

    code = Code.ALREADY_EXISTS
    reason = "ORDER_EXISTS"

    def __init__(self, order_id: str) -> None:
        super().__init__("The hold is an order already.", orderId=order_id)


class OrderNotFound(Refusal):
    """No such order, or not the caller's."""

    code = Code.NOT_FOUND
    reason = "ORDER_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no such order.")


class OutcomeConflict(Refusal):
    """Another outcome stands. What it means for the money is on record."""

    code = Code.FAILED_PRECONDITION
    reason = "OUTCOME_CONFLICT"

    def __init__(self, state: str) -> None:
        super().__init__(f"The order is {state} by an outcome recorded before.", state=state)


class NotCancellable(Refusal):
    """Only a confirmed order can be cancelled."""

    code = Code.ABORTED
    reason = "NOT_CANCELLABLE"

    def __init__(self, state: str) -> None:
        super().__init__(f"The order is {state}; only a confirmed one can be cancelled.", state=state)


class CancellationClosed(Refusal):
    """Too late, or a ticket was used."""

    code = Code.ABORTED
    reason = "CANCELLATION_CLOSED"

    def __init__(self, why: str) -> None:
        super().__init__(why)


class WrongShard(Refusal):
    """The event belongs to a shard that this booking does not have."""

    code = Code.FAILED_PRECONDITION
    reason = "WRONG_SHARD"

    def __init__(self) -> None:
        super().__init__("The event's id names no shard of this booking.")


class InventoryConflict(Refusal):
    """The same version with other content, or a version that takes seats away."""

    code = Code.FAILED_PRECONDITION
    reason = "INVENTORY_CONFLICT"


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def _rfc3339(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
