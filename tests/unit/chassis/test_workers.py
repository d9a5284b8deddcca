import asyncio

from chassis.workers import Worker


class Rounds:
    """Counts its rounds; each says what it is told to."""

    def __init__(self, answer: int | Exception) -> None:
        self.answer, self.count = answer, 0
        self.worker = Worker("tried", self.run_once, 0.02)

    async def run_once(self) -> int:
        self.count += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            self.worker.wake.set()  # whoever wakes it does not know that it fails
            raise self.answer
        return self.answer


async def count_of(rounds: Rounds, seconds: float = 0.5) -> int:
    task = asyncio.create_task(rounds.worker.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return rounds.count


async def test_a_worker_goes_on_at_once_while_there_is_work() -> None:
    assert await count_of(Rounds(1)) > 100


async def test_a_worker_that_finds_nothing_pauses() -> None:
    assert 5 < await count_of(Rounds(0)) < 40


async def test_a_worker_that_fails_rests_longer_after_each_round_and_nobody_wakes_it() -> None:
    assert 2 <= await count_of(Rounds(ValueError("broken"))) <= 6


async def test_a_worker_is_woken() -> None:
    rounds = Rounds(0)
    rounds.worker.interval_seconds = 60
    task = asyncio.create_task(rounds.worker.run())
    await asyncio.sleep(0.05)
    rounds.worker.wake.set()
    await asyncio.sleep(0.05)
    task.cancel()
    assert rounds.count == 2
