"""The gatherer over calls that a test holds up and answers."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from chassis.errors import Unavailable
from services.booking import gather
from services.booking.gather import LARGEST_BATCH, MOST_AT_ONE, MOST_TURNS, QUIET_TURNS, Gatherer


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
    assert not asked.present
    assert not asked.queues


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
    assert len(asked.present) == len(asked.queues[1]) == 1  # the first, which the second only waited for
    calls.gate.set()
    assert await words([first]) == ["DONE"]
    assert calls.made == [["first"]]


async def test_crowds_at_some_things_hold_up_nobody_elsewhere() -> None:
    calls = Calls(busy={"locked"})
    calls.rerun_gate.clear()
    calls.gate.set()
    asked = gatherer(calls)
    (locked,) = await ask(asked, Request("locked", (1, 2, 3)))
    crowd = await ask(asked, *(Request("fan", (1 + number % 3,)) for number in range(600)))
    (stranger,) = await ask(asked, Request("stranger", (4,)))
    assert await words([stranger]) == ["DONE"]
    calls.rerun_gate.set()
    assert await words([locked, *crowd]) == ["AGAIN"] + ["DONE"] * 600
    assert calls.made[2:] == [["fan"] * 3] * 200
    assert not asked.queues


async def test_a_crowd_at_one_thing_is_bounded() -> None:
    calls = Calls()
    asked = gatherer(calls)
    tasks = await ask(asked, *(Request("fan", (1, number + 2)) for number in range(MOST_AT_ONE)))
    with pytest.raises(Unavailable):
        await asked.ask(Request("one more", (0, 1)))
    tasks += await ask(asked, Request("stranger", (0,)))
    calls.gate.set()
    assert await words(tasks) == ["DONE"] * (MOST_AT_ONE + 1)


async def test_who_waited_too_long_behind_another_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MOST_SECONDS", 0.05)
    monkeypatch.setattr(gather, "WATCH_SECONDS", 0.02)
    calls = Calls(busy={"locked"})
    calls.rerun_gate.clear()
    calls.gate.set()
    asked = gatherer(calls)
    (locked, late) = await ask(asked, Request("locked", (1,)), Request("late", (1, 2)))
    with pytest.raises(Unavailable):
        await late
    assert await words(await ask(asked, Request("stranger", (2,)))) == ["DONE"]
    calls.rerun_gate.set()
    assert await words([locked]) == ["AGAIN"]
    assert not asked.queues


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


async def turns_until(happened: Callable[[], object]) -> int:
    """Turns of the event loop."""
    for turn in range(1000):
        if happened():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


async def ask_one_by_one(asked: Gatherer[Request, Verdict], count: int, *, every: int) -> list[Asked]:
    """One more request each so many turns, as many as an event loop under load unpacks."""
    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(asked.ask(Request(str(number)))))
        for _ in range(every):
            await asyncio.sleep(0)
    return tasks


async def test_a_lone_callers_call_starts_at_once_also_after_a_call_of_one() -> None:
    calls = Calls()
    calls.gate.set()
    asked = gatherer(calls)
    for number in range(1, 4):
        task = asyncio.create_task(asked.ask(Request(str(number))))
        assert await turns_until(lambda: len(calls.made) == number) < 5  # noqa: B023
        await task
        assert calls.made[-1] == [str(number)]


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_after_a_call_of_many_what_trickles_in_is_one_call(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control does not wait: it makes a call of nearly each."""
    if not guarded:
        monkeypatch.setattr(gather, "QUIET_TURNS", 0)
    calls = Calls()
    asked = gatherer(calls)
    first = await ask(asked, Request("first"), Request("second"))
    calls.gate.set()
    tasks = await ask_one_by_one(asked, 20, every=5)
    assert await words(first + tasks) == ["DONE"] * 22
    assert calls.made[0] == ["first", "second"]
    if guarded:
        assert calls.made[1:] == [list(map(str, range(20)))]
    else:
        assert len(calls.made) > 10


async def test_what_trickles_in_for_ever_keeps_no_call_from_starting() -> None:
    calls = Calls()
    asked = gatherer(calls)
    first = await ask(asked, Request("first"), Request("second"))
    calls.gate.set()
    tasks = await ask_one_by_one(asked, LARGEST_BATCH - 1, every=QUIET_TURNS - 6)
    assert MOST_TURNS // QUIET_TURNS <= len(calls.made[1]) <= MOST_TURNS // (QUIET_TURNS - 6) + 2
    assert await words(first + tasks) == ["DONE"] * (LARGEST_BATCH + 1)


async def test_what_trickles_in_ends_with_a_full_call() -> None:
    calls = Calls()
    asked = gatherer(calls)
    first = await ask(asked, Request("first"), Request("second"))
    calls.gate.set()
    tasks = await ask_one_by_one(asked, LARGEST_BATCH + 2, every=2)
    assert [len(names) for names in calls.made] == [2, LARGEST_BATCH]
    assert await words(first + tasks) == ["DONE"] * (LARGEST_BATCH + 4)


async def test_a_full_call_waits_for_no_arrivals() -> None:
    calls = Calls()
    asked = gatherer(calls)
    first = await ask(asked, Request("first"), Request("second"))
    rest = await ask(asked, *(Request(str(number)) for number in range(LARGEST_BATCH)))
    calls.gate.set()
    assert await turns_until(lambda: len(calls.made) == 2) < 5
    assert await words(first + rest) == ["DONE"] * (2 + LARGEST_BATCH)


async def test_after_a_call_of_many_a_lone_caller_waits_for_some_turns_alone() -> None:
    calls = Calls()
    asked = gatherer(calls)
    first = await ask(asked, Request("first"), Request("second"))
    (lone,) = await ask(asked, Request("lone"))
    calls.gate.set()
    assert QUIET_TURNS <= await turns_until(lambda: len(calls.made) == 2) < 2 * QUIET_TURNS
    assert await words([*first, lone]) == ["DONE"] * 3


@pytest.mark.parametrize("left", [0, 1])
async def test_close_while_arrivals_are_let_in_ends(left: int) -> None:
    calls = Calls()
    asked = gatherer(calls)
    first = await ask(asked, Request("first"), Request("second"))
    rest = await ask(asked, *(Request(str(number)) for number in range(left)))
    calls.gate.set()
    await turns_until(lambda: all(task.done() for task in first))
    closing = asyncio.create_task(asked.close())
    await asyncio.sleep(0)
    assert len(calls.made) == 1  # arrivals are being let in
    await asyncio.wait_for(closing, 5)
    assert await words(first + rest) == ["DONE"] * (2 + left)
    assert all(task.done() for task in asked.tasks)
