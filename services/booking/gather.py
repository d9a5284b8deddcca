"""Requests that arrive together go to the database together: one call for many holds costs a sixth of a call for each.

A call starts when the one before has ended, never on a timer, so a lone caller waits for nobody. What arrives meanwhile
is the next one, and after a call of many all that the event loop has at hand. Each thing that requests touch (a seat,
an account, and so perhaps a key) has a queue; whoever is first in all of its queues may go, and stays first until its
end. So no two requests of a call touch the same, nobody overtakes, and a crowd at one seat holds up nobody who wants
others. A call takes no lock that another session has: a request that met one is run again alone, where its wait is
nobody else's, and so is every request of a call that failed, for one may be to blame and the others are new or replays.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog
from opentelemetry import trace
from prometheus_client import Counter, Histogram

from chassis.errors import Unavailable

LARGEST_BATCH = 64  # requests of a call; twice as many would save little
MOST_WAITING = 4096  # requests: at a few thousand a second, more than MOST_SECONDS of work
MOST_AT_ONE = 1024  # of them in the queue of one thing, where a call takes one: about MOST_SECONDS of work
MOST_SECONDS = 3.0  # a request waits for its turn; longer than any healthy wait, shorter than a caller's patience
WATCH_SECONDS = 0.25  # between two looks at who has waited too long
QUIET_TURNS = 16  # of the event loop without an arrival: then what is left has not come yet
MOST_TURNS = 128  # with arrivals in between; the database must not stand idle for ever

BATCH = Histogram("booking_batch_size", "Requests of one call", ["call"], buckets=(1, 2, 4, 8, 16, 32, 64))
RERUNS = Counter("booking_reruns_total", "Requests that were run again alone", ["call"])

RequestT = TypeVar("RequestT")
VerdictT = TypeVar("VerdictT", bound="Verdict")
Call = Callable[[Sequence[RequestT]], Awaitable[list[VerdictT]]]
GONE = Unavailable("Nobody waits for the answer.")

log = structlog.get_logger()
tracer = trace.get_tracer("rowlock")


class Verdict(Protocol):
    """What a call says of a request; BUSY: nothing, and nothing was done."""

    @property
    def word(self) -> str: ...


@dataclass(slots=True, eq=False)
class _Waiting(Generic[RequestT, VerdictT]):
    request: RequestT
    touched: frozenset[Hashable]
    answer: asyncio.Future[VerdictT]
    since: float
    caller: trace.SpanContext
    behind: int = 0  # of its queues have another one first
    begun: bool = False  # a call has it, or it is to be run again alone


class Gatherer(Generic[RequestT, VerdictT]):
    """One kind of call to one shard. `together` takes up to LARGEST_BATCH requests and no lock that another has; each
    of `alone` takes one request and waits for locks. Each is called again only when it has returned. `touched` says
    what no two requests of a call may share."""

    def __init__(
        self,
        name: str,
        together: Call[RequestT, VerdictT],
        alone: Sequence[Call[RequestT, VerdictT]],
        touched: Callable[[RequestT], Iterable[Hashable]],
    ) -> None:
        self.name, self.together, self.alone, self.touched = name, together, alone, touched
        self.batch_size, self.reruns = BATCH.labels(name), RERUNS.labels(name)
        self.present: dict[_Waiting[RequestT, VerdictT], None] = {}  # all that have no end yet, in order of arrival
        self.queues: dict[Hashable, list[_Waiting[RequestT, VerdictT]]] = {}
        self.ready: deque[_Waiting[RequestT, VerdictT]] = deque()  # first in all of their queues, and not begun
        self.again: dict[_Waiting[RequestT, VerdictT], None] = {}  # to be run alone, in this order
        self.closed = False
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, request: RequestT) -> VerdictT:
        """A verdict that is not BUSY. The caller may go away: once a call has its request, what it does stands.

        Raises what the request's run alone raised, or Unavailable when its turn did not come.
        """
        touched = self._touched_by(request)
        if self.closed or len(self.present) >= MOST_WAITING or self._is_crowded(touched):
            raise Unavailable("Too many are waiting; try again with the same key.")
        if not self.tasks:
            self._start()
        loop = asyncio.get_running_loop()
        caller = trace.get_current_span().get_span_context()
        waiting: _Waiting[RequestT, VerdictT] = _Waiting(request, touched, loop.create_future(), loop.time(), caller)
        self._come(waiting)
        return await waiting.answer

    async def close(self) -> None:
        """Takes no more, and returns when everything that was taken has its answer."""
        self.closed = True
        if self.tasks:
            while self.present:
                self.left.clear()
                await self.left.wait()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _start(self) -> None:
        """On the loop of the first caller."""
        self.work, self.rerun, self.left = asyncio.Event(), asyncio.Event(), asyncio.Event()
        runs = [self._run_together(), *map(self._run_alone, self.alone), self._watch()]
        self.tasks = [asyncio.create_task(run, context=Context()) for run in runs]  # in nobody's span

    async def _run_together(self) -> None:
        batch: list[_Waiting[RequestT, VerdictT]] = []
        while True:
            if len(batch) > 1:
                await self._arrivals()
            batch = self._take()
            if not batch:
                self.work.clear()
                await self.work.wait()
                continue
            await self._call(batch)

    async def _arrivals(self) -> None:
        """Lets in what the event loop has at hand: requests are unpacked a few a turn, while answers go out. A batch
        of four times the size costs each of its requests half."""
        quiet = 0
        for _ in range(MOST_TURNS):
            before = len(self.ready)
            if quiet == QUIET_TURNS or before >= LARGEST_BATCH:
                return
            await asyncio.sleep(0)
            quiet = 0 if len(self.ready) > before else quiet + 1

    async def _call(self, batch: list[_Waiting[RequestT, VerdictT]]) -> None:
        self.batch_size.observe(len(batch))
        verdicts: Sequence[VerdictT | None]
        try:
            verdicts = await self._traced(self.together, batch)
        except Exception as error:
            log.warning("a call of many requests failed", call=self.name, requests=len(batch), error=repr(error))
            verdicts = [None] * len(batch)
        for waiting, verdict in zip(batch, verdicts, strict=True):
            if verdict is None or verdict.word == "BUSY":
                self.reruns.inc()
                self.again[waiting] = None
                self.rerun.set()
            else:
                self._end(waiting, verdict)

    async def _run_alone(self, call: Call[RequestT, VerdictT]) -> None:
        while True:
            while not self.again:
                self.rerun.clear()
                await self.rerun.wait()
            waiting = next(iter(self.again))
            del self.again[waiting]
            outcome: VerdictT | Exception = GONE
            if not waiting.answer.done():
                try:
                    (outcome,) = await self._traced(call, [waiting])
                except Exception as error:
                    outcome = error
            self._end(waiting, outcome)

    async def _watch(self) -> None:
        """A database that does not answer keeps every call; whoever waits behind them is told in time."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            oldest = asyncio.get_running_loop().time() - MOST_SECONDS
            for waiting in [waiting for waiting in self.present if waiting.since < oldest]:
                late = Unavailable("The database did not answer in time; try again with the same key.")
                if waiting in self.again:
                    del self.again[waiting]
                    self._end(waiting, late)
                elif waiting.behind:
                    self._end(waiting, late)
                elif not waiting.begun:
                    self._answer(waiting, late)  # and it ends when its turn comes

    def _touched_by(self, request: RequestT) -> frozenset[Hashable]:
        return frozenset(self.touched(request))

    def _is_crowded(self, touched: Iterable[Hashable]) -> bool:
        return any(len(self.queues.get(thing, ())) >= MOST_AT_ONE for thing in touched)

    def _come(self, waiting: _Waiting[RequestT, VerdictT]) -> None:
        """To the end of its queues."""
        self.present[waiting] = None
        for thing in waiting.touched:
            queue = self.queues.get(thing)
            if queue:
                queue.append(waiting)
                waiting.behind += 1
            else:
                self.queues[thing] = [waiting]
        if not waiting.behind:
            self._may_go(waiting)

    def _leave(self, waiting: _Waiting[RequestT, VerdictT]) -> None:
        """Whoever is first now, may go."""
        del self.present[waiting]
        self.left.set()
        for thing in waiting.touched:
            queue = self.queues[thing]
            if queue[0] is not waiting:
                queue.remove(waiting)
                continue
            del queue[0]
            if not queue:
                del self.queues[thing]
                continue
            queue[0].behind -= 1
            if not queue[0].behind:
                self._may_go(queue[0])

    def _may_go(self, waiting: _Waiting[RequestT, VerdictT]) -> None:
        self.ready.append(waiting)
        self.work.set()

    def _take(self) -> list[_Waiting[RequestT, VerdictT]]:
        """The next call's requests."""
        batch: list[_Waiting[RequestT, VerdictT]] = []
        while self.ready and len(batch) < LARGEST_BATCH:
            waiting = self.ready.popleft()
            if waiting.answer.done():
                self._end(waiting, GONE)
            else:
                waiting.begun = True
                batch.append(waiting)
        return batch

    def _end(self, waiting: _Waiting[RequestT, VerdictT], outcome: VerdictT | Exception) -> None:
        self._leave(waiting)
        self._answer(waiting, outcome)

    def _answer(self, waiting: _Waiting[RequestT, VerdictT], outcome: VerdictT | Exception) -> None:
        if waiting.answer.done():
            return  # its caller has gone
        if isinstance(outcome, Exception):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)

    async def _traced(
        self, call: Call[RequestT, VerdictT], batch: Sequence[_Waiting[RequestT, VerdictT]]
    ) -> list[VerdictT]:
        """With a span in the trace of the first of its callers that is recorded, linked to the others."""
        requests = [waiting.request for waiting in batch]
        recorded = [waiting.caller for waiting in batch if waiting.caller.trace_flags.sampled]
        if not recorded:
            return await call(requests)
        parent = trace.set_span_in_context(trace.NonRecordingSpan(recorded[0]))
        links = [trace.Link(caller) for caller in recorded[1:]]
        with tracer.start_as_current_span(f"booking.{self.name}", parent, links=links):
            return await call(requests)
