"""A crowd that does everything at once at two bookings, for a number of calls; and its history, checked by SQL."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import grpc
from rowlock.booking.v1 import booking_pb2 as pb

from chassis.errors import reason_of
from services.booking.expiry import sweep_holds
from services.booking.tickets import issue_tickets
from tests.integration.booking.booth import EVENT, Booth, caller, inventory, timestamp

SEATS, AREA, UNITS, CAP = 50, 3, 60, 8
CALLERS = 64  # at each booking
TRIES = 20  # of a call that gets no answer
ACCOUNTS = 30
GRACE = timedelta(milliseconds=300)
DURATIONS = (0.001, 0.005, 0.02, 0.1, 0.4, 30)  # seconds that a hold lasts; it changes all the time

# Refusals that a race may end with. Everything else is wrong, and anything that is a 5xx.
LOSSES = {"SEAT_UNAVAILABLE", "TOO_MANY_TICKETS", "NO_BLOCK", "TEMPORARILY_UNAVAILABLE", "SOLD_OUT", "HOLD_EXPIRED"}

# From when until when a hold, or the order it became, had its seats or units.
OWNED = """
  WITH ended AS (
    SELECT CAST(aggregate_id AS uuid) AS order_id, min(CAST(payload ->> 'time' AS timestamptz)) AS end_time
      FROM outbox WHERE sink = 'booking.orders' AND kind IN ('failed', 'cancelled') GROUP BY 1
  ), owned AS (
    SELECT h.hold_id, h.account, h.seats, h.area_id, h.ticket_count, h.create_time AS since,
           CASE h.state WHEN 'CONFIRMED' THEN coalesce(d.end_time, 'infinity')
                        WHEN 'RELEASED' THEN least(h.expires_at, h.end_time) ELSE h.expires_at END AS until
      FROM hold h LEFT JOIN orders o USING (hold_id) LEFT JOIN ended d USING (order_id)
     UNION ALL
    SELECT o.hold_id, o.account, h.seats, h.area_id, h.ticket_count, o.confirm_time, coalesce(o.cancel_time, 'infinity')
      FROM orders o JOIN hold h USING (hold_id) JOIN late_payment l USING (order_id) WHERE l.verdict = 'RETAKEN'
  )
"""
# Creation times are whole milliseconds, rounded down.
HISTORY = {
    "a seat had two owners at once": f"""{OWNED}, own AS (
      SELECT hold_id, unnest(seats) AS seat, since, date_trunc('milliseconds', until) AS until FROM owned)
      SELECT a.seat, a.hold_id, b.hold_id FROM own a JOIN own b ON a.seat = b.seat
         AND (a.since, a.hold_id) < (b.since, b.hold_id) AND b.since < a.until AND a.since < b.until""",
    "an area had more owners than units": f"""{OWNED}, step AS (
      SELECT since AS at, ticket_count AS units FROM owned WHERE area_id = {AREA}
       UNION ALL SELECT date_trunc('milliseconds', until), -ticket_count FROM owned
        WHERE area_id = {AREA} AND until > since
      ), run AS (SELECT at, sum(units) OVER (ORDER BY at, units) AS used FROM step WHERE at < 'infinity')
      SELECT at, used FROM run WHERE used > {UNITS}""",
    "an account was over its cap": f"""
      SELECT h.account, h.hold_id FROM hold h WHERE {CAP} < (
        SELECT sum(g.ticket_count) FROM hold g WHERE g.account = h.account AND g.create_time <= h.create_time
           AND coalesce(g.end_time, 'infinity') > h.create_time + interval '1 ms'
           AND g.expires_at + interval '{GRACE.total_seconds()} s' > h.create_time + interval '1 ms'
      ) + coalesce((
        SELECT sum(o.ticket_count) FROM orders o
          LEFT JOIN outbox m ON m.sink = 'booking.orders' AND m.aggregate_id = CAST(o.order_id AS text)
                            AND m.kind IN ('failed', 'cancelled')
         WHERE o.account = h.account AND o.create_time <= h.create_time
           AND coalesce(CAST(m.payload ->> 'time' AS timestamptz), 'infinity') > h.create_time + interval '1 ms'
           AND NOT EXISTS (SELECT FROM late_payment l WHERE l.order_id = o.order_id)), 0)""",
    "a key made two holds": "SELECT account, idempotency_key FROM hold GROUP BY 1, 2 HAVING count(*) > 1",
    "a hold made two orders": "SELECT hold_id FROM orders GROUP BY 1 HAVING count(*) > 1",
    "an order was charged twice": """
      SELECT aggregate_id FROM outbox WHERE sink = 'payments' AND kind = 'charge' GROUP BY 1 HAVING count(*) > 1""",
    "a version of an order was told twice, or none": """
      SELECT o.order_id FROM orders o LEFT JOIN outbox m
          ON m.sink = 'booking.orders' AND m.aggregate_id = CAST(o.order_id AS text)
       GROUP BY o.order_id, o.version
      HAVING count(m.message_id) <> o.version - 1 OR count(DISTINCT m.payload ->> 'version') <> o.version - 1""",
}

Wish = Callable[[Booth], Awaitable[pb.HoldSeatsResponse | None]]  # asks once; None: lost


def crowded_event() -> pb.PutInventoryRequest:
    """Seats, an area, and a cancellation window."""
    return inventory(
        seats=SEATS,
        resale=True,
        cancel_end_time=timestamp(datetime.now(UTC) + timedelta(days=1)),
        areas=[pb.InventoryArea(area_id=AREA, name="Floor", capacity=UNITS, tier=1)],
    )


@dataclass
class Crowd:
    """What was asked and what came of it."""

    booths: tuple[Booth, Booth]
    seed: int
    calls: int
    asked: int = 0
    words: Counter[str] = field(default_factory=Counter)
    held: set[str] = field(default_factory=set)
    wrong: list[Any] = field(default_factory=list)

    async def run(self) -> None:
        """Until the calls are spent."""
        callers = [self._caller(booth, number) for booth in range(2) for number in range(CALLERS)]
        workers = [asyncio.create_task(work()) for work in (self._change_durations, self._sweep, self._sweep)]
        try:
            await asyncio.gather(*callers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def check(self) -> None:
        """The answers, the history, the promises, and that nothing was lost or made."""
        assert not self.wrong, (len(self.wrong), self.wrong[:3])
        booth = self.booths[0]
        for name, sql in HISTORY.items():
            rows = await _ask_patiently(booth, sql)
            assert not rows, (name, len(rows), [tuple(row) for row in rows[:3]])
        (row,) = await booth.execute("SELECT count(*) FROM hold")
        assert row["count"] == len(self.held)
        broken = await booth.broken()
        assert broken == {}, broken
        counts = await booth.admin.CountSeats(pb.CountSeatsRequest(event_id=EVENT))
        assert sum(value for field, value in counts.ListFields() if field.name != "areas") == SEATS
        await asyncio.sleep(1.1)  # sessions tell the count of deadlocks when they are idle for a second
        (row,) = await booth.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert row["deadlocks"] == 0

    async def _change_durations(self) -> None:
        dice = random.Random(self.seed)
        while True:
            seconds = timedelta(seconds=dice.choice(DURATIONS))
            await self.booths[0].execute("UPDATE event SET hold_duration = $1", seconds)
            await asyncio.sleep(0.05)

    async def _sweep(self) -> None:
        while True:
            shard = self.booths[0].shards["s1"]
            await sweep_holds(shard, grace=GRACE)
            await issue_tickets(shard)  # a crowd takes longer than a paid order may be without
            await asyncio.sleep(0.05)

    async def _caller(self, number: int, caller_number: int) -> None:
        dice = random.Random(self.seed * 1000 + number * 100 + caller_number)
        while self.asked < self.calls:
            try:
                await self._buy(dice, number)
            except Exception as error:  # looked at in check(), so that one failure does not end the others' race
                self.wrong.append(error)

    async def _buy(self, dice: random.Random, at: int) -> None:
        account = "fan-1" if dice.random() < 0.2 else f"fan-{dice.randint(2, ACCOUNTS)}"
        ask = self._wish(dice, account)
        places = [at, 1 - at, at] if dice.random() < 0.2 else [at]
        found = await asyncio.gather(*(ask(self.booths[place]) for place in places))
        held = [answer for answer in found if answer]
        if len({(answer.hold_id, answer.expires_at.ToNanoseconds()) for answer in held}) > 1:
            self.wrong.append(("two holds of one key", found))
        if not held:
            return
        self.held.add(held[0].hold_id)
        if dice.random() < 0.1:
            again = await ask(self.booths[1 - at])
            if not again or (again.hold_id, again.expires_at) != (held[0].hold_id, held[0].expires_at):
                self.wrong.append(("replay", held[0], again))
        await asyncio.sleep(dice.random() * 0.2)
        await self._go_on(dice, self.booths[1 - at if dice.random() < 0.3 else at], account, held[0].hold_id)

    def _wish(self, dice: random.Random, account: str) -> Wish:
        key = f"{dice.getrandbits(64):x}"
        request = pb.HoldSeatsRequest(event_id=EVENT)
        chance = dice.random()
        if chance < 0.2:
            request.general_admission.area_id = AREA
            request.general_admission.quantity = dice.randint(1, 6)
        elif chance < 0.4:
            request.best_available.quantity = dice.randint(1, 4)
        elif dice.random() < 0.5:
            request.seat_ids.extend(dice.sample(range(1, SEATS + 1), dice.randint(1, 4)))
        else:
            first = dice.randint(1, SEATS - 4)
            request.seat_ids.extend(range(first, first + dice.randint(1, 4)))
        # Who asks for the best may lose many races, and then nothing is decided.
        word, losses = ("BEST", ["CONTENDED"]) if request.HasField("best_available") else ("HELD", [])

        async def ask(booth: Booth) -> pb.HoldSeatsResponse | None:
            call = partial(booth.public.HoldSeats, request, metadata=caller(account, key=key), timeout=30)
            answer: pb.HoldSeatsResponse | None = await self._call(word, call, *losses)
            if answer and word == "BEST" and len(answer.seats) != request.best_available.quantity:
                self.wrong.append(("another number of seats", request, answer))
            return answer

        return ask

    async def _go_on(self, dice: random.Random, booth: Booth, account: str, hold_id: str) -> None:
        """Release, buy, or let go."""
        chance = dice.random()
        if chance < 0.4:
            request = pb.ReleaseHoldRequest(hold_id=hold_id)
            await self._call("RELEASED", lambda: booth.public.ReleaseHold(request, metadata=caller(account)))
        elif chance < 0.7:
            order_id = await self._call("ORDERED", lambda: booth.order(account, hold_id))
            if order_id:
                await asyncio.sleep(dice.random() * 0.1)
                await self._decide(dice, booth, account, order_id)

    async def _decide(self, dice: random.Random, booth: Booth, account: str, order_id: str) -> None:
        """Most are declined or cancelled, so that seats come back; some of the declined are paid late."""
        if dice.random() < 0.6:
            failed = (self._outcome(booth, order_id, pb.PAYMENT_OUTCOME_FAILED) for _ in range(dice.randint(1, 2)))
            await asyncio.gather(*failed)
            if dice.random() > 0.2:
                return
        await self._outcome(booth, order_id, pb.PAYMENT_OUTCOME_SUCCEEDED)
        if dice.random() < 0.9:
            await asyncio.gather(*(self._cancel(booth, account, order_id) for _ in range(dice.randint(1, 2))))

    async def _cancel(self, booth: Booth, account: str, order_id: str) -> None:
        request = pb.CancelOrderRequest(order_id=order_id)
        call = partial(booth.public.CancelOrder, request, metadata=caller(account))
        await self._call("CANCELLED", call, "NOT_CANCELLABLE")

    async def _outcome(self, booth: Booth, order_id: str, outcome: Any) -> None:
        call = partial(booth.outcome, order_id, outcome, "CARD_DECLINED")
        await self._call(pb.PaymentOutcome.Name(outcome), call, "OUTCOME_CONFLICT")

    async def _call(self, word: str, call: Callable[[], Awaitable[Any]], *losses: str) -> Any:
        """The answer, or None for a loss. Without an answer it asks again, as a caller does."""
        for _ in range(TRIES):
            self.asked += 1
            try:
                answer = await call()
            except grpc.aio.AioRpcError as error:
                reason, _ = reason_of(error)
                if reason not in {*LOSSES, *losses, "UNAVAILABLE"}:
                    raise
                self.words[reason] += 1
                if reason == "UNAVAILABLE":
                    continue
                return None
            self.words[word] += 1
            return answer
        raise AssertionError(f"no answer after {TRIES} tries")


async def _ask_patiently(booth: Booth, sql: str) -> list[asyncpg.Record]:
    """Without the time-out of a service's statements: a long history takes some seconds to look through."""
    connection = await asyncpg.connect(booth.dsn, server_settings={"statement_timeout": "0"})
    try:
        return list(await connection.fetch(sql))
    finally:
        await connection.close()
