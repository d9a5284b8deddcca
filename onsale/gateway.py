"""HTTP as a careful client speaks it: no answer, 502, 503 or 504 is asked again with the same key."""

import asyncio
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import aiohttp

ATTEMPT_SECONDS = 20.0  # longer than the gateway's own time-out: it is the gateway that should answer 504
PATIENCE_SECONDS = 90.0  # long enough for a service to be killed and started again
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 3.0
AGAIN = {502, 503, 504}
MOST_CONNECTIONS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """Status 0 means that no answer came in time."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def reason(self) -> str:
        """The stable word of a refusal."""
        return next((each["reason"] for each in self.body.get("details", []) if "reason" in each), "")

    def metadata(self, name: str) -> str:
        """A refusal's detail, or an empty string."""
        for each in self.body.get("details", []):
            if name in each.get("metadata", {}):
                value: str = each["metadata"][name]
                return value
        return ""


@dataclass
class Measured:
    """What the run saw of the house, by call."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    reasons: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def note(self, call: str, answer: Answer, seconds: float) -> None:
        self.seconds[call].append(seconds)
        self.statuses[call][answer.status] += 1
        if answer.reason:
            self.reasons[call][answer.reason] += 1

    def percentile(self, call: str, share: float) -> float:
        """In milliseconds; 0 when the call was never made."""
        ordered = sorted(self.seconds[call])
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def server_errors(self) -> int:
        """Answers of 5xx, and calls without any answer."""
        return sum(n for each in self.statuses.values() for status, n in each.items() if status >= 500 or status == 0)


class Gateway:
    """One connection pool for all fans."""

    def __init__(self, url: str, session: aiohttp.ClientSession, measured: Measured) -> None:
        self.url, self.session, self.measured = url, session, measured

    async def call(self, name: str, method: str, path: str, headers: dict[str, str], body: Any = None) -> Answer:
        """The answer, asked for again until PATIENCE_SECONDS have passed while there is none."""
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, FIRST_PAUSE_SECONDS
        while True:
            answer = await self._once(name, method, path, headers, body)
            if answer.status not in AGAIN and answer.status != 0:
                return answer
            if time.monotonic() > deadline:
                return answer
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _once(self, name: str, method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        began = time.perf_counter()
        try:
            async with self.session.request(method, self.url + path, headers=headers, json=body) as response:
                answer = Answer(response.status, await response.json(content_type=None) or {})
        except (aiohttp.ClientError, TimeoutError, ValueError):
            answer = Answer(0, {})
        self.measured.note(name, answer, time.perf_counter() - began)
        return answer


def open_session() -> aiohttp.ClientSession:
    """Bounded: fans beyond MOST_CONNECTIONS wait for one, as behind any browser's or proxy's pool."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS),
        timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
    )
