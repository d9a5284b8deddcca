"""Long work in short turns: a generator stops after each small step, and says at its end what it found.

The event loop is one thread, so what takes long must let the others in. Here there is no lock on what is looked at:
between two steps others may change it, so long work looks at a copy.
"""

import asyncio
from collections.abc import Callable, Generator
from time import thread_time
from typing import TypeVar

from chassis.errors import Contended

ROWS_OF_A_STEP = 32  # of a plan: 0.1 ms; 6 ms where each is of 256 seats that nobody has looked at before
TURN_SECONDS = 0.002  # of the processor; then a rest as long, so that long work has at most half of the loop
MOST_WAITING = 32  # for their turn at long work, which is up to 0.4 s of the processor at the largest events, …
MOST_SECONDS = 3.0  # … and so long: then it is better to come again

FULL = "Many look for seats, and few are left; try again."

T = TypeVar("T")
Steps = Generator[None, None, T]


async def in_turns(steps: Steps[T]) -> T:
    """To the end; after each turn the others have theirs."""
    while True:
        began = thread_time()
        if found := _turn(steps):
            return found[0]
        await asyncio.sleep(thread_time() - began)


def _turn(steps: Steps[T]) -> list[T]:
    """What they found at their end; nothing where the turn was over before."""
    ends = thread_time() + TURN_SECONDS
    try:
        next(steps)
        while thread_time() < ends:
            next(steps)
    except StopIteration as end:
        return [end.value]
    return []


class Turns:
    """Of a process. What ends within a turn waits for nobody; the rest is done one after the other, or many together
    would have all of the loop."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._waiting = 0

    async def run(self, begin: Callable[[], Steps[T]]) -> T:
        """Raises Contended when too many wait, or its turn does not come. Work that had to wait begins again: what it
        looked at is old by then."""
        if found := _turn(begin()):
            return found[0]
        await self._wait()
        try:
            await asyncio.sleep(TURN_SECONDS)  # the turn that it has had
            return await in_turns(begin())
        finally:
            self._one.release()

    async def _wait(self) -> None:
        if self._waiting >= MOST_WAITING:
            raise Contended(FULL)
        self._waiting += 1
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._one.acquire()
        except TimeoutError:
            raise Contended(FULL) from None
        finally:
            self._waiting -= 1
