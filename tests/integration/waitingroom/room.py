"""A line in a real Redis-protocol server, with its clock in the test's hands where a test sets it."""

from dataclasses import dataclass

import redis.asyncio

from services.waitingroom.rows import Policy, Terms
from services.waitingroom.store.leases import LeaseStore
from services.waitingroom.store.lines import LineStore
from services.waitingroom.store.scripts import Scripts, connect, read_scripts

EVENT = "evt_s1_7"
START = 1_800_000_000_000  # milliseconds; any time will do


@dataclass
class Room:
    """The stores of one service process."""

    client: redis.asyncio.Redis
    scripts: Scripts
    lines: LineStore
    leases: LeaseStore

    @classmethod
    def open(cls, url: str, terms: Terms | None = None) -> "Room":
        """Not connected before the first call."""
        client, terms = connect(url), terms or Terms()
        scripts = Scripts(client, read_scripts())
        return cls(client, scripts, LineStore(scripts, terms), LeaseStore(scripts, terms))

    def at(self, seconds: float) -> None:
        """Sets the clock: seconds after START."""
        self.scripts.now = START + round(seconds * 1000)

    async def announce(self, *, capacity: int = 10, line: bool = True, start: float = 0, end: float = 36_000) -> None:
        """Puts the next policy; times are seconds after START."""
        version = int(await self.client.hget(self.line_key, "version") or 0) + 1
        times = (START + round(start * 1000), START + round(end * 1000))
        assert await self.lines.put_line_policy(EVENT, Policy(version, line, capacity, *times))

    @property
    def line_key(self) -> str:
        """The hash of the policy and counters."""
        return f"waitingroom:{{{EVENT}}}:line"

    async def enter(self, account: str, position: int) -> int:
        """When the lease ends, in milliseconds."""
        return (await self.leases.enter_event(EVENT, account, position, await self.epoch())).expires

    async def leave(self, account: str, position: int) -> None:
        """Gives the lease or the position back."""
        await self.leases.leave_event(EVENT, account, position, await self.epoch())

    async def epoch(self) -> int:
        """Of the line; 0 for an event that was not announced."""
        return int(await self.client.hget(self.line_key, "epoch") or 0)

    async def join(self, account: str) -> int:
        """The account's position."""
        return (await self.lines.join_line(EVENT, account)).position
