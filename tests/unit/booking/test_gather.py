"""The gatherer over calls that a test holds up and answers."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from chassis.errors import Unavailable
from services.booking import gather
from services.booking.gather import Gatherer


@dataclass(frozen=True)
class Request:
    """Wants some things."""

    name: str
    things: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """Of a request, by which call."""

    word: str
    name: str


@dataclass
class Calls:
    """Stands where the database is: each call waits until the test lets it go."""

    busy: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    made: list[list[str]] = field(default_factory=list)
    reruns: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    rerun_gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.rerun_gate.set()

    async def together(self, requests: Sequence[Request]) -> list[Verdict]:
        self.made.append([request.name for request in requests])
        await self.gate.wait()
        if self.bad.intersection(self.made[-1]):
            raise ValueError("one of them")
        return [Verdict("BUSY" if request.name in self.busy else "DONE", request.name) for request in requests]

    async def alone(self, requests: Sequence[Request]) -> list[Verdict]:
        (request,) = requests
        self.reruns.append(request.name)
        await self.rerun_gate.wait()
        if request.name in self.bad:
            raise ValueError(request.name)
        return [Verdict("AGAIN", request.name)]


def things_of(request: Request) -> Iterable[int]:
    return request.things


def gatherer(calls: Calls, *, guarded: bool = True) -> Gatherer[Request, Verdict]:
    touched = things_of if guarded else lambda _: ()
    return Gatherer("test", calls.together, [calls.alone, calls.alone], touched)


async def settle() -> None:
    """Until every task waits for something."""
    for _ in range(30):
        await asyncio.sleep(0)


Asked = asyncio.Task[Verdict]


async def ask(gatherer: Gatherer[Request, Verdict], *requests: Request) -> list[Asked]:
    tasks = [asyncio.create_task(gatherer.ask(request)) for request in requests]
    await settle()
    return tasks


async def words(tasks: Sequence[Asked]) -> list[str]:
    return [verdict.word for verdict in await asyncio.wait_for(asyncio.gather(*tasks), 5)]


async def test_a_lone_caller_waits_for_nobody() -> None:
    calls = Calls()
    calls.gate.set()
    assert await gatherer(calls).ask(Request("a")) == Verdict("DONE", "a")
    assert calls.made == [["a"]]


async def test_what_arrives_during_a_call_is_the_next_one() -> None:
    calls = Calls()
    asked = gatherer(calls)
    tasks = await ask(asked, Request("a"))
    tasks += await ask(asked, *(Request(str(number)) for number in range(100)))
    assert calls.made == [["a"]]
    calls.gate.set()
    assert await words(tasks) == ["DONE"] * 101
    assert [len(names) for names in calls.made] == [1, 64, 36]
    assert [name for names in calls.made for name in names] == ["a", *map(str, range(100))]


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_no_two_of_a_call_share_a_thing(guarded: bool) -> None:
    calls = Calls()
    asked = gatherer(calls, guarded=guarded)
    tasks = await ask(asked, Request("first"))
    tasks += await ask(asked, Request("12", (1, 2)), Request("23", (2, 3)), Request("4", (4,)))
    calls.gate.set()
    await words(tasks)
    assert calls.made[1:] == ([["12", "4"], ["23"]] if guarded else [["12", "23", "4"]])


async def test_nobody_overtakes_on_a_thing() -> None:
    calls = Calls()
    asked = gatherer(calls)
    tasks = await ask(asked, Request("1", (1,)), Request("12", (1, 2)), Request("2", (2,)), Request("3", (3,)))
    calls.gate.set()
    await words(tasks)
    assert calls.made == [["1", "3"], ["12"], ["2"]]


async def test_who_met_a_lock_runs_again_alone_and_holds_up_nobody_else() -> None:
    calls = Calls(busy={"locked"})
    calls.rerun_gate.clear()
    calls.gate.set()
    asked = gatherer(calls)
    (locked, *others) = await ask(asked, Request("locked", (1,)), Request("2", (2,)), Request("3", (3,)))
    assert await words(others) == ["DONE", "DONE"]
    (behind, beside) = await ask(asked, Request("behind", (1,)), Request("beside", (4,)))
    assert await words([beside]) == ["DONE"]
    assert not behind.done()  # what the rerun touches is under way until its end
    calls.rerun_gate.set()
    assert await words([locked, behind]) == ["AGAIN", "DONE"]
    assert calls.reruns == ["locked"]


async def test_one_bad_request_fails_no_neighbour() -> None:
    calls = Calls(bad={"bad"})
    asked = gatherer(calls)
    calls.gate.set()
    bad, *good = await ask(asked, Request("bad", (1,)), Request("2", (2,)), Request("3", (3,)))
    assert await words(good) == ["AGAIN", "AGAIN"]
    with pytest.raises(ValueError, match="bad"):
        await bad
    assert await words(await ask(asked, Request("later", (1, 2, 3)))) == ["DONE"]


async def test_a_departed_callers_request_goes_on_once_it_is_under_way_and_is_dropped_before() -> None:
    calls = Calls()
    asked = gatherer(calls)
    (under_way, waits) = await ask(asked, Request("under way", (1,)), Request("waits", (1,)))
    for task in (under_way, waits):
        task.cancel()
    await settle()
    (later,) = await ask(asked, Request("later", (1,)))
    calls.gate.set()
    assert await words([later]) == ["DONE"]
    assert calls.made == [["under way"], ["later"]]
    assert asked.unanswered == 0


async def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MOST_WAITING", 3)
    calls = Calls()
    asked = gatherer(calls)
    tasks = await ask(asked, *(Request(str(number)) for number in range(3)))
    with pytest.raises(Unavailable):
        await asked.ask(Request("one more"))
    calls.gate.set()
    assert await words(tasks) == ["DONE"] * 3
    assert (await asked.ask(Request("one more"))).word == "DONE"


async def test_a_wait_is_bounded_and_ends_nothing_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MOST_SECONDS", 0.05)
    monkeypatch.setattr(gather, "WATCH_SECONDS", 0.02)
    calls = Calls()
    asked = gatherer(calls)
    (first, second) = await ask(asked, Request("first", (1,)), Request("second", (1,)))
    with pytest.raises(Unavailable):
        await second
    assert asked.under_way == {1}  # by the first, which the second only waited for
    calls.gate.set()
    assert await words([first]) == ["DONE"]
    assert calls.made == [["first"]]


async def test_close_lets_everything_end_and_takes_no_more() -> None:
    calls = Calls(busy={"locked"})
    calls.rerun_gate.clear()
    asked = gatherer(calls)
    tasks = await ask(asked, Request("locked", (1,)), Request("waits", (1,)))
    closing = asyncio.create_task(asked.close())
    await settle()
    with pytest.raises(Unavailable):
        await asked.ask(Request("late"))
    calls.gate.set()
    await settle()
    assert not closing.done()
    calls.rerun_gate.set()
    await asyncio.wait_for(closing, 5)
    assert await words(tasks) == ["AGAIN", "DONE"]


async def test_close_without_a_caller_ends_at_once() -> None:
    await gatherer(Calls()).close()
