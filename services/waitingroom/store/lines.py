"""Lines: who waits, how far each has moved, and what the tick does to it."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from services.waitingroom.errors import EventNotFound, NotOnSale
from services.waitingroom.rows import Check, Counts, Line, Policy, Position, PositionState, Sales, Stop, Terms, Tick
from services.waitingroom.store.scripts import Scripts, bounded, keys_of

INDEX = "waitingroom:lines"  # events whose line the admitters move
ACCOUNTS_AT_ONCE = 1000  # a script with more arguments would hold up everybody else's
COUNTS_KEPT_SECONDS = 10  # five rounds of asking: one lost answer frees no line that is sold out
POSITIONS_CHECKED = 200_000  # of a line: about a second's reading; a larger crowd is checked in part


class LineStore:
    """What is known of every event's line."""

    def __init__(self, scripts: Scripts, terms: Terms) -> None:
        self.scripts, self.terms = scripts, terms

    async def put_line_policy(self, event_id: str, policy: Policy) -> bool:
        """Whether it was newer than the one known."""
        if policy.line:
            await bounded(self.scripts.client.sadd(INDEX, event_id))
        values = (policy.version, int(policy.line), policy.capacity, policy.sale_start, policy.sale_end)
        return bool(await self.scripts.run("put_line_policy", event_id, *values))

    async def join_line(self, event_id: str, account: str) -> Position:
        """The account's position, or a new one at the back."""
        answer = _known(await self.scripts.run("join_line", event_id, account, self.terms.grace_seconds * 1000))
        state, epoch, position, admitted_through, rate, as_of, sale_end = answer
        return Position(PositionState(state), epoch, position, admitted_through, float(rate), as_of, sale_end)

    async def get_line(self, event_id: str) -> Line:
        """The line as it stands now."""
        answer = _known(await self.scripts.run("get_line", event_id))
        epoch, line, capacity, start, end, tail, admitted, in_flight, as_of, *answer = answer
        moved, ticked, room, stop, *rates = answer
        rate, claim_rate, commits, conflicts = map(float, rates)
        numbers = (epoch, bool(line), capacity, start, end, tail, admitted, in_flight, as_of, int(moved))
        return Line(*numbers, int(ticked), int(room), Stop(stop), rate, claim_rate, commits, conflicts)

    async def tick(self, event_id: str) -> Tick:
        """Moves the line, if it is time."""
        outcome, advanced = await self.scripts.run("tick", event_id, self.terms.grace_seconds * 1000)
        return Tick(outcome, advanced)

    async def report_sales(self, sales: Sales) -> int:
        """How many leases ended."""
        accounts, ended = list(sales.finished_accounts), 0
        commits, conflicts = sales.commits, sales.conflicts
        while True:
            some, accounts = accounts[:ACCOUNTS_AT_ONCE], accounts[ACCOUNTS_AT_ONCE:]
            ended += int(await self.scripts.run("report_sales", sales.event_id, commits, conflicts, *some))
            commits = conflicts = 0
            if not accounts:
                return ended

    async def note_counts(self, event_id: str, counts: Counts) -> bool:
        """Whether they were news; they hold for COUNTS_KEPT_SECONDS after their picture."""
        values = (counts.open, counts.held, counts.as_of, COUNTS_KEPT_SECONDS * 1000)
        return bool(await self.scripts.run("note_counts", event_id, *values))

    async def list_lines(self) -> Sequence[str]:
        """Events that have a line."""
        return sorted(map(str, await bounded(self.scripts.client.smembers(INDEX))))

    async def forget_line(self, event_id: str) -> None:
        """No longer ticked; its keys end by themselves."""
        await bounded(self.scripts.client.srem(INDEX, event_id))

    async def check_line(self, event_id: str) -> list[Check]:
        """Every invariant of one line."""
        lease_ms, max_stay_ms = self.terms.lease_seconds * 1000, self.terms.max_stay_seconds * 1000
        found = json.loads(await self.scripts.run("check_line", event_id, lease_ms, max_stay_ms) or "{}")
        checks = [Check(name, count, tuple(examples)) for name, (count, examples) in found.items()]
        return [*checks, await self._position_given_twice(event_id)]

    async def _position_given_twice(self, event_id: str) -> Check:
        given: dict[str, str] = {}  # by account, for a scan may bring one twice
        cursor, key = 0, keys_of(event_id)[1]
        while len(given) < POSITIONS_CHECKED:
            cursor, page = await bounded(self.scripts.client.hscan(key, cursor, count=1000))
            given.update(cast(dict[str, str], page))
            if not cursor:
                break
        counted = Counter(record.partition(":")[0] for record in given.values())
        twice = [position for position, count in counted.items() if count > 1 and position != "0"]
        return Check("position_given_twice", len(twice), tuple(twice[:10]))


def _known(answer: Any) -> Any:
    if answer is None:
        raise EventNotFound
    if answer[0] == "ENDED":
        raise NotOnSale
    return answer
