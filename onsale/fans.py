"""What a fan does, from the line to the ticket. Each fan is a seeded person: the same seed, the same intentions."""

import asyncio
import contextlib
import random
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import quote

from onsale.gateway import Answer, Gateway
from onsale.venue import Sale

POLL_SECONDS = 2.0
HEARTBEAT_SECONDS = 20.0
ORDER_POLL_SECONDS = 0.7
MOST_LOST_RACES = 12  # then a fan has had enough
MOST_PURCHASES = 2  # a declined card is tried once more, with another
TICKET_POLLS = 40
TAKE_BEST_SHARE = 0.35  # of fans let the house choose
STANDING_SHARE = 0.4  # of fans want units first, where the event has any
UNIT = 0  # in the place of a seat's id, on a ticket for an area


class Way(Enum):
    """How a fan asks for places."""

    PICKS = "picks seats on the map"
    TAKES_BEST = "takes the best that are left"
    STANDS = "buys units of an area"


class Habit(Enum):
    """What becomes of a fan who got seats; the shares are `HABITS`."""

    BUYS = "buys"
    BUYS_SLOWLY = "pays through a slow bank"
    DECLINED = "has a card that is declined, then takes another"
    DOUBLE_CLICKS = "presses every button twice"
    CHANGES_MIND = "gives the hold back"
    VANISHES = "closes the tab with a hold"
    NO_SHOW = "never comes when called"


HABITS = {
    Habit.BUYS: 58,
    Habit.BUYS_SLOWLY: 5,
    Habit.DECLINED: 10,
    Habit.DOUBLE_CLICKS: 10,
    Habit.CHANGES_MIND: 5,
    Habit.VANISHES: 5,
    Habit.NO_SHOW: 7,
}
PAYMENT_TOKENS = {Habit.BUYS_SLOWLY: "pm_sandbox_slow", Habit.DECLINED: "pm_card_visa_chargeDeclined"}
GOOD_CARD = "pm_card_visa"
LOST_TO_ITSELF = {"SEAT_UNAVAILABLE", "TOO_MANY_TICKETS", "HOLD_EXPIRED", "ORDER_EXISTS", "IDEMPOTENCY_KEY_REUSED"}
NOTHING_LEFT = {"LINE_STATE_SOLD_OUT", "LINE_STATE_ENDED"}


@dataclass
class Seen:
    """What fans were told; the checks hold it against the services and the processor."""

    orders: dict[str, str] = field(default_factory=dict)  # order id → last state that its buyer saw
    tickets: dict[str, list[int]] = field(default_factory=dict)  # order id → seats on its tickets, UNIT for a unit
    conflicts: int = 0
    endings: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # answers that must never be given
    confirmed_times: list[float] = field(default_factory=list)  # by the loop's clock


class SoldOut(Exception):
    """Nothing is left to try for."""


class GaveUp(Exception):
    """This fan leaves; the words say why."""


class Fan:
    """One account with its tokens. Two habits leave without a word, as closed tabs do; the others say goodbye."""

    def __init__(self, number: int, token: str, sale: Sale, gateway: Gateway, seen: Seen, seed: int) -> None:
        self.random = random.Random(seed * 1_000_003 + number)
        self.sale, self.gateway, self.seen = sale, gateway, seen
        self.user = {"authorization": f"Bearer {token}"}
        self.habit = self.random.choices(list(HABITS), list(HABITS.values()))[0]
        self.party = self.random.choices([1, 2, 3, 4], [15, 55, 15, 15])[0]
        self.ways = self._preferred_ways()
        self.queue = self.admission = ""
        self.position = 0

    async def attend(self, arrives_in: float) -> None:
        """From arrival to leaving; always leaves an ending behind."""
        await asyncio.sleep(arrives_in)
        try:
            ending = await self._visit()
        except SoldOut:
            ending = "found nothing left"
        except GaveUp as reason:
            ending = str(reason)
        if self.habit not in {Habit.VANISHES, Habit.NO_SHOW}:
            await self._post("leave")
        self.seen.endings.append(ending)

    async def _visit(self) -> str:
        await self._join()
        await self._wait_for_turn()
        if self.habit is Habit.NO_SHOW:
            raise GaveUp("never came when called")
        await self._enter()
        async with self._heartbeats():
            return await self._buy()

    async def _join(self) -> None:
        answer = await self._post("waiting-room", call="join", queue=False)
        if not answer.ok:
            raise GaveUp(f"could not join: {answer.status} {answer.reason}")
        self.queue, self.position = answer.body["queueToken"], int(answer.body["position"])

    async def _wait_for_turn(self) -> None:
        while True:
            line = await self._get(f"/v1/events/{self.sale.event_id}/waiting-room", "line")
            if line.ok and int(line.body["admittedThrough"]) >= self.position:
                return
            if line.ok and line.body["state"] in NOTHING_LEFT:
                raise SoldOut
            await asyncio.sleep(POLL_SECONDS * self.random.uniform(0.7, 1.3))

    async def _enter(self) -> None:
        for _ in range(3):
            answer = await self._post("enter")
            if answer.ok:
                self.admission = answer.body["admissionToken"]
                return
            if answer.reason not in {"ADMISSION_MISSED", "LEASE_ENDED"}:
                raise GaveUp(f"could not enter: {answer.status} {answer.reason}")
            await self._join()
            await self._wait_for_turn()
        raise GaveUp("missed three admissions")

    @contextlib.asynccontextmanager
    async def _heartbeats(self) -> Any:
        task = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            answer = await self._post("heartbeat")
            if answer.ok:
                self.admission = answer.body["admissionToken"]

    async def _buy(self) -> str:
        token = PAYMENT_TOKENS.get(self.habit, GOOD_CARD)
        for _ in range(MOST_PURCHASES):
            hold = await self._hold_seats()
            await asyncio.sleep(self.random.uniform(0.2, 2.0))  # reads the price, types a card
            if self.habit is Habit.CHANGES_MIND:
                released = await self.gateway.call("release", "DELETE", f"/v1/holds/{hold['holdId']}", self.user)
                return "gave the hold back" if released.ok else f"release was refused: {released.reason}"
            if self.habit is Habit.VANISHES:
                return "closed the tab with a hold"
            if await self._order(hold, token):
                return "bought"
            token = GOOD_CARD
        return "was declined"

    async def _hold_seats(self) -> dict[str, Any]:
        for _ in range(MOST_LOST_RACES):
            body, headers = await self._wish(), {**self._inside(), "idempotency-key": self._key()}
            path = f"/v1/events/{self.sale.event_id}/holds"
            answer = await self._press("hold", path, headers, body, "holdId")
            if answer.ok:
                return answer.body
            if answer.reason == "SEAT_UNAVAILABLE":
                self.seen.conflicts += 1
                seats = body.get("seatIds", [])
                lost = {int(each) for each in answer.metadata("lostSeatIds").split(",") if each}
                if not lost or not lost <= set(seats):
                    self.seen.broken.append(f"lost seats {sorted(lost)} are not of the seats asked for {seats}")
            elif answer.reason in {"NO_BLOCK", "SOLD_OUT", "TEMPORARILY_UNAVAILABLE"}:
                self._settle_for_less(answer)
            elif answer.reason in {"TOKEN_INVALID", "TOKEN_FOR_ANOTHER"}:
                await self._enter()
            elif answer.reason != "CONTENDED":
                raise GaveUp(f"hold was refused: {answer.status} {answer.reason}")
            await asyncio.sleep(self.random.uniform(0.1, 0.8))
        raise GaveUp("lost too many races")

    def _preferred_ways(self) -> list[Way]:
        """In order; the next is taken when one has nothing left."""
        seats = [Way.TAKES_BEST, Way.PICKS] if self.random.random() < TAKE_BEST_SHARE else [Way.PICKS]
        if not self.sale.areas:
            return seats
        return [Way.STANDS, *seats] if self.random.random() < STANDING_SHARE else [*seats, Way.STANDS]

    async def _wish(self) -> dict[str, Any]:
        """The body of a hold."""
        while self.ways:
            match self.ways[0]:
                case Way.TAKES_BEST:
                    return {"bestAvailable": {"quantity": self.party}}
                case Way.STANDS:
                    area = self.random.choice(list(self.sale.areas))
                    return {"generalAdmission": {"areaId": area, "quantity": self.party}}
                case Way.PICKS:
                    try:
                        return {"seatIds": await self._choose()}
                    except SoldOut:
                        self.ways.pop(0)
        raise SoldOut

    def _settle_for_less(self, answer: Answer) -> None:
        """A smaller party, another way, or the same again in a moment."""
        if answer.reason == "NO_BLOCK":
            largest = int(answer.metadata("largest") or 0)
            if not 0 < largest < self.party:
                self.seen.broken.append(f"no block for {self.party}, and {largest} could be had")
            self.party = max(1, min(largest, self.party - 1))
        elif answer.reason == "SOLD_OUT":
            self.ways.pop(0)

    async def _choose(self) -> list[int]:
        """Seats side by side in a section that has some, by a map that may be stale; alone if need be."""
        counts = await self._get(f"/v1/events/{self.sale.event_id}/seats", "counts")
        if not counts.ok:
            return self._blind_choice()
        live = [each for each in counts.body["sections"] if each["open"] > 0 or each["held"] > 0]
        if not live:
            raise SoldOut
        section = self.random.choices(live, [each["open"] + 0.1 * each["held"] for each in live])[0]["section"]
        seats = await self.gateway.call(
            "seats", "GET", f"/v1/events/{self.sale.event_id}/seats?section={quote(section, safe='')}", {}
        )
        if not seats.ok:
            return self._blind_choice()
        is_open = {s["seatId"] for s in seats.body["seats"] if s["state"] == "PUBLIC_SEAT_STATE_OPEN"}
        for party in range(self.party, 0, -1):
            blocks = [
                row[first : first + party]
                for row in self.sale.rows[section]
                for first in range(len(row) - party + 1)
                if is_open.issuperset(row[first : first + party])
            ]
            if blocks:
                return self.random.choice(blocks)
        raise SoldOut if len(live) == 1 and not is_open else GaveUp("found no seat in the section")

    def _blind_choice(self) -> list[int]:
        row = self.random.choice(self.sale.rows[self.random.choice(list(self.sale.rows))])
        first = self.random.randrange(max(1, len(row) - self.party + 1))
        return row[first : first + self.party]

    async def _order(self, hold: dict[str, Any], token: str) -> bool:
        headers = {**self.user, "idempotency-key": self._key()}
        body = {"holdId": hold["holdId"], "paymentToken": token}
        answer = await self._press("order", "/v1/orders", headers, body, "orderId")
        if answer.reason == "HOLD_EXPIRED":
            raise GaveUp("the hold ran out")
        if not answer.ok:
            raise GaveUp(f"order was refused: {answer.status} {answer.reason}")
        return await self._see_through(answer.body["orderId"])

    async def _see_through(self, order_id: str) -> bool:
        self.seen.orders[order_id] = "ORDER_STATE_PENDING_PAYMENT"
        while self.seen.orders[order_id] == "ORDER_STATE_PENDING_PAYMENT":
            await asyncio.sleep(ORDER_POLL_SECONDS * self.random.uniform(0.7, 1.3))
            answer = await self._get(f"/v1/orders/{order_id}", "order state", self.user)
            if answer.ok:
                self.seen.orders[order_id] = answer.body["order"]["state"]
            elif answer.status == 404:
                self.seen.broken.append(f"{order_id} was accepted and is not found")
                return False
        if self.seen.orders[order_id] != "ORDER_STATE_CONFIRMED":
            return False
        self.seen.confirmed_times.append(asyncio.get_running_loop().time())
        await self._fetch_tickets(order_id)
        return True

    async def _fetch_tickets(self, order_id: str) -> None:
        for _ in range(TICKET_POLLS):
            answer = await self._get(f"/v1/orders/{order_id}/tickets", "tickets", self.user)
            if answer.ok and answer.body["tickets"]:
                self.seen.tickets[order_id] = [_place_of(each) for each in answer.body["tickets"]]
                return
            await asyncio.sleep(ORDER_POLL_SECONDS)

    async def _press(self, name: str, path: str, headers: dict[str, str], body: Any, identity: str) -> Answer:
        """Posts; a double-clicker posts twice at once, and both answers must name the same thing."""
        presses = 2 if self.habit is Habit.DOUBLE_CLICKS else 1
        answers = await asyncio.gather(*(self.gateway.call(name, "POST", path, headers, body) for _ in range(presses)))
        names = {each.body[identity] for each in answers if each.ok}
        if names and any(each.reason in LOST_TO_ITSELF for each in answers):
            names |= await self._names_now(name, path, headers, body, identity)
        if len(names) > 1:
            self.seen.broken.append(f"one key, two answers: {sorted(names)}")
        return next((each for each in answers if each.ok), answers[0])

    async def _names_now(self, name: str, path: str, headers: dict[str, str], body: Any, identity: str) -> set[str]:
        """A refusal leaves no record, so one press may be refused and the next get what came free in between. But once
        a key has brought something, it brings that for ever."""
        again = await self.gateway.call(name, "POST", path, headers, body)
        return {again.body[identity] if again.ok else f"{again.status} {again.reason}"}

    async def _post(self, action: str, call: str = "", queue: bool = True) -> Answer:
        headers = {**self.user, "x-rowlock-queue": self.queue} if queue else self.user
        return await self.gateway.call(call or action, "POST", f"/v1/events/{self.sale.event_id}/{action}", headers, {})

    async def _get(self, path: str, call: str, headers: dict[str, str] | None = None) -> Answer:
        return await self.gateway.call(call, "GET", path, headers or {})

    def _inside(self) -> dict[str, str]:
        return {**self.user, "x-rowlock-admission": self.admission}

    def _key(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))


def _place_of(ticket: dict[str, Any]) -> int:
    seat: int = ticket["seat"]["seatId"] if ticket.get("seat") else UNIT
    return seat
