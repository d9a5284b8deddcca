"""A crowd of fans against the real scripts, in a time of its own: minutes of a sale pass in seconds.

A share of the fans never shows up; the others claim within some seconds after the line has passed them, stay a while,
and leave: half of them by saying so, half by falling silent, so that their lease runs out.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import redis

from services.waitingroom.store.scripts import keys_of, read_scripts

EVENT = "evt_s1_9"
START_MS = 1_800_000_000_000
TICK_SECONDS = 0.5
GRACE_SECONDS = 60
CLAIM_SECONDS = 20.0  # the last comes this long after the line has passed
STAY_SECONDS = 90.0  # mean
WARM_SECONDS = 180  # from then the zone should be full
LONG_MS = 100_000_000


@dataclass
class Crowd:
    """`no_show` is the share that never comes, by the second of the sale."""

    client: "redis.Redis"
    fans: int
    capacity: int
    no_show: Callable[[float], float]
    scripts: dict[str, str] = field(default_factory=read_scripts)
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    due: list[tuple[float, str, int, float]] = field(default_factory=list)  # time, what, position, stay
    now: float = 0.0
    admitted: int = 0

    def __post_init__(self) -> None:
        self.shas = {name: self.client.script_load(text) for name, text in self.scripts.items()}
        policy = self.client.pipeline(transaction=False)
        self.call(policy, "put_line_policy", self.now, 1, 1, self.capacity, 0, 0)
        for position in range(1, self.fans + 1):
            self.call(policy, "join_line", self.now, f"fan{position}", GRACE_SECONDS * 1000)
        self.epoch = policy.execute()[-1][1]

    def call(self, pipeline: "redis.client.Pipeline", name: str, at: float, *arguments: str | int) -> None:
        """Adds a call at a second of the sale."""
        keys = keys_of(EVENT)
        pipeline.evalsha(self.shas[name], len(keys), *keys, START_MS + round(at * 1000), *arguments)

    def run(self) -> tuple[float, float]:
        """The zone's peak and, once warm, its mean, as shares of its capacity; ends when the line is empty."""
        peak, area, ticks = 0, 0, 0
        while self.admitted < self.fans:
            self.now += TICK_SECONDS
            in_flight = self.tick()
            peak = max(peak, in_flight)
            if self.now > WARM_SECONDS:
                area, ticks = area + in_flight, ticks + 1
        return peak / self.capacity, area / max(ticks, 1) / self.capacity

    def tick(self) -> int:
        """All that is due, then a tick; how many are inside."""
        pipeline = self.client.pipeline(transaction=False)
        entering = 0
        while self.due and self.due[0][0] <= self.now:
            at, what, position, stay = heapq.heappop(self.due)
            entering += self.enter(pipeline, at, position, stay) if what == "enter" else 0
            if what == "leave":
                self.call(pipeline, "leave_event", at, f"fan{position}", position, self.epoch)
        self.call(pipeline, "tick", self.now, GRACE_SECONDS * 1000)
        pipeline.zcard(keys_of(EVENT)[4])
        *answers, tick, in_flight = pipeline.execute()
        assert sum(answer != 1 and answer[0] == b"ENTERED" for answer in answers) == entering
        for position in range(self.admitted + 1, self.admitted + tick[1] + 1):
            self.pass_by(position)
        self.admitted += tick[1]
        return int(in_flight)

    def pass_by(self, position: int) -> None:
        """The line has passed a fan, who comes or does not."""
        if self.dice.random() >= self.no_show(self.now):
            at = self.now + self.dice.uniform(0, CLAIM_SECONDS)
            stay = self.dice.expovariate(1 / STAY_SECONDS)
            heapq.heappush(self.due, (at, "enter", position, stay))

    def enter(self, pipeline: "redis.client.Pipeline", at: float, position: int, stay: float) -> int:
        """A fan who leaves has a long lease; one who falls silent has one that ends by itself."""
        silent = position % 2 == 0
        lease = max(1, round(stay * 1000)) if silent else LONG_MS
        times = (GRACE_SECONDS * 1000, lease, LONG_MS)
        self.call(pipeline, "enter_event", at, f"fan{position}", position, self.epoch, *times)
        if not silent:
            heapq.heappush(self.due, (at + stay, "leave", position, 0.0))
        return 1
