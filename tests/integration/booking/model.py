"""What booking promises, in plain Python, one call at a time: what each must answer, and what then is whose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

AREA, UNITS, CAP = 3, 6, 4

HELD, ORDERED, SOLD, BLOCKED = "held", "pending_payment", "sold", "blocked"


class Place(NamedTuple):
    """What can be asked of a seat."""

    section: str
    tier: int
    accessible: bool = False


PLACES = dict(
    enumerate(
        [
            *[Place("A", 1), Place("A", 1), Place("A", 1, accessible=True), Place("A", 1)],
            *[Place("B", 1), Place("B", 2), Place("B", 2, accessible=True)],
        ],
        1,
    )
)
SEATS = len(PLACES)


class Ask(NamedTuple):
    """For the best available; section and tier may be any."""

    quantity: int
    section: str
    tier: int | None
    accessible: int

    def fits(self, place: Place) -> bool:
        """Whether such a seat was asked for."""
        return self.section in ("", place.section) and self.tier in (None, place.tier)


@dataclass(eq=False)
class Hold:
    """`time`: LIVE, then GRACE after its expiry, then OVER."""

    account: str
    key: str
    seats: tuple[int, ...]
    units: int
    state: str = "ACTIVE"
    time: str = "LIVE"
    swept: bool = False
    order: "Order | None" = None
    ask: Ask | None = None

    @property
    def tickets(self) -> int:
        """What the cap counts."""
        return len(self.seats) + self.units

    @property
    def shown(self) -> str:
        """Its state as its owner reads it."""
        return "EXPIRED" if self.state == "ACTIVE" and self.time != "LIVE" else self.state


@dataclass(eq=False)
class Order:
    """What a hold became."""

    hold: Hold
    state: str = "PENDING_PAYMENT"
    judged: bool = False


@dataclass
class Model:
    """An event. Each method gives the state or refusal that booking must answer with."""

    seats: dict[int, tuple[str, Hold | Order] | None] = field(
        default_factory=lambda: dict.fromkeys(range(1, SEATS + 1))
    )
    holds: list[Hold] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    units: int = UNITS
    budget: int = 1000
    resale: bool = True

    def hold_seats(self, account: str, key: str, seats: tuple[int, ...]) -> str:
        """All or none; who takes a seat of an expired hold ends its record."""
        refusal = self._refuse(account, len(seats))
        lost = [seat for seat in seats if not self._is_free(seat)]
        if refusal or lost:
            return refusal or f"SEAT_UNAVAILABLE {','.join(map(str, lost))}"
        self._take(Hold(account, key, seats, 0))
        return "ACTIVE"

    def refuse_best(self, account: str, ask: Ask) -> set[str]:
        """Why the best available must be refused, any of it; none: it must be held. Seats are looked for before the
        account is, in a picture that may be old, so an account that may not hold hears either; but not for a party that
        is over the cap by itself."""
        refusal = self._refuse(account, ask.quantity)
        largest = self._largest(ask, self._is_free)
        if ask.quantity > CAP or largest == ask.quantity:
            return {refusal} - {""}
        why = f"NO_BLOCK {largest}" if largest else "SOLD_OUT"
        if not largest and self._largest(ask, self._may_be_had):
            why = "TEMPORARILY_UNAVAILABLE"
        return {why, refusal} - {""}

    def hold_best(self, account: str, key: str, ask: Ask, seats: Sequence[int]) -> None:
        """Checks what was given out: so many, free, of what was asked for, exactly as many of them accessible."""
        assert len(set(seats)) == ask.quantity, (ask, seats)
        assert all(self._is_free(seat) and ask.fits(PLACES[seat]) for seat in seats), (ask, seats)
        assert sum(PLACES[seat].accessible for seat in seats) == ask.accessible, (ask, seats)
        self._take(Hold(account, key, tuple(seats), 0, ask=ask))

    def hold_area(self, account: str, key: str, units: int) -> str:
        """Expired holds give back first, once there is not enough."""
        refusal = self._refuse(account, units)
        if refusal:
            return refusal
        unswept = [hold for hold in self.holds if hold.units and not hold.swept]
        if self.units < units:
            for hold in [hold for hold in unswept if hold.time != "LIVE"]:
                self._end_units(hold)
        if self.units >= units:
            self.units -= units
            self.holds.append(Hold(account, key, (), units))
            return "ACTIVE"
        if self.units:
            return f"NO_BLOCK {self.units}"
        pending = any(order.hold.units and order.state == "PENDING_PAYMENT" for order in self.orders)
        unswept = [hold for hold in self.holds if hold.units and not hold.swept]
        return "TEMPORARILY_UNAVAILABLE" if unswept or pending else "SOLD_OUT"

    def release_hold(self, hold: Hold) -> str:
        """Only while nobody has ended it."""
        if hold.state == "ACTIVE":
            hold.state = "RELEASED" if hold.time == "LIVE" else "EXPIRED"
            hold.swept = True
            self.units += hold.units
            self._free(hold)
        return hold.state

    def create_order(self, hold: Hold) -> str:
        """With a key of its own."""
        if hold.order:
            return "ORDER_EXISTS"
        mine = all(self.seats[seat] == (HELD, hold) for seat in hold.seats)
        if not mine or hold.state != "ACTIVE" or hold.swept or hold.time == "OVER":
            return "HOLD_EXPIRED"
        hold.state, hold.swept, hold.order = "CONFIRMED", True, Order(hold)
        self.orders.append(hold.order)
        self._move(hold.order, ORDERED)
        return "PENDING_PAYMENT"

    def succeed(self, order: Order) -> str:
        """Money that comes after its order had failed takes the same again, or is owed back; judged once."""
        if order.state == "PENDING_PAYMENT":
            order.state = "CONFIRMED"
            self._move(order, SOLD)
        elif order.state == "FAILED":
            hold, retaken = order.hold, not order.judged
            order.judged = True
            retaken = retaken and all(self.seats[seat] is None for seat in hold.seats) and self.units >= hold.units
            if not retaken or self._in_use(hold.account) + hold.tickets > CAP:
                return "OUTCOME_CONFLICT"
            order.state = "CONFIRMED"
            self.units -= hold.units
            self._move(order, SOLD)
        return order.state

    def fail(self, order: Order) -> str:
        """Gives back once."""
        if order.state in ("CONFIRMED", "CANCELLED"):
            return "OUTCOME_CONFLICT"
        if order.state == "PENDING_PAYMENT":
            self._end_order(order, "FAILED")
        return order.state

    def cancel_order(self, order: Order) -> str:
        """Gives back once; where nothing is sold again, its seats and units stay blocked."""
        if order.state == "CONFIRMED" and self.resale:
            self._end_order(order, "CANCELLED")
        elif order.state == "CONFIRMED":
            order.state = "CANCELLED"
            self._move(order, BLOCKED)
        return order.state if order.state == "CANCELLED" else "NOT_CANCELLABLE"

    def sweep(self) -> None:
        """Everything that is due."""
        for hold in self.holds:
            if hold.swept or hold.time != "OVER":
                continue
            if hold.units:
                self._end_units(hold)
            else:
                self._free(hold)
                hold.state = "EXPIRED" if hold.state == "ACTIVE" else hold.state
                hold.swept = True

    def seat_states(self) -> dict[int, str]:
        """As booking tells them: an expired hold keeps nobody from a seat."""
        return {
            seat: "available" if owner is None or self._is_free(seat) else owner[0]
            for seat, owner in self.seats.items()
        }

    def unit_counts(self) -> dict[str, int]:
        """The same of the area."""
        counts = {"available": self.units, "held": 0, "pending_payment": 0, "sold": 0, "blocked": 0}
        for hold in self.holds:
            if hold.state == "ACTIVE" and not hold.swept:
                counts["held" if hold.time == "LIVE" else "available"] += hold.units
        for order in self.orders:
            words = {"PENDING_PAYMENT": ORDERED, "CONFIRMED": SOLD, "CANCELLED": "" if self.resale else BLOCKED}
            word = words.get(order.state)
            if word:
                counts[word] += order.hold.units
        return {word: count for word, count in counts.items() if count}

    def _is_free(self, seat: int) -> bool:
        owner = self.seats[seat]
        return owner is None or (isinstance(owner[1], Hold) and owner[1].time != "LIVE")

    def _may_be_had(self, seat: int) -> bool:
        """Now, or when a hold ends or a payment fails."""
        owner = self.seats[seat]
        return owner is None or owner[0] in (HELD, ORDERED)

    def _largest(self, ask: Ask, can_be_had: Callable[[int], bool]) -> int:
        """The largest party that there are seats for; accessible ones seat nobody who did not ask for them."""
        found = [place.accessible for seat, place in PLACES.items() if ask.fits(place) and can_be_had(seat)]
        accessible = min(found.count(True), ask.accessible)
        if ask.accessible and not accessible:
            return 0
        return accessible + min(found.count(False), ask.quantity - ask.accessible)

    def _refuse(self, account: str, tickets: int) -> str:
        """By the account's cap, then by its budget of holds, of which those that became orders are none."""
        used = self._in_use(account)
        if used + tickets > CAP:
            return f"TOO_MANY_TICKETS {used}"
        spent = sum(hold.account == account and hold.state != "CONFIRMED" for hold in self.holds) >= self.budget
        return "HOLD_BUDGET_SPENT" if spent else ""

    def _take(self, hold: Hold) -> None:
        self.holds.append(hold)
        for seat in hold.seats:
            owner = self.seats[seat]
            if owner and isinstance(owner[1], Hold) and owner[1].state == "ACTIVE":
                owner[1].state = "EXPIRED"
            self.seats[seat] = (HELD, hold)

    def _in_use(self, account: str) -> int:
        """A hold counts through its grace."""
        holds = (h for h in self.holds if h.state == "ACTIVE" and h.time != "OVER")
        orders = (o.hold for o in self.orders if o.state in ("PENDING_PAYMENT", "CONFIRMED"))
        return sum(hold.tickets for each in (holds, orders) for hold in each if hold.account == account)

    def _move(self, order: Order, word: str) -> None:
        for seat in order.hold.seats:
            self.seats[seat] = (word, order)

    def _end_order(self, order: Order, state: str) -> None:
        order.state = state
        self.units += order.hold.units
        self._free(order)

    def _end_units(self, hold: Hold) -> None:
        hold.state, hold.swept = "EXPIRED", True
        self.units += hold.units

    def _free(self, owner: Hold | Order) -> None:
        for seat, found in self.seats.items():
            if found and found[1] is owner:
                self.seats[seat] = None
