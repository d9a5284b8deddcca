"""A process that was told to end does end, whatever it waits for."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterable
from typing import Any

import structlog

CUT_SHORT = 75  # exit status: what was under way is not known here, so its callers ask again (EX_TEMPFAIL)
SAY_SECONDS = 1.0  # for the last line of the log; whoever should read it may hang too
CANCEL_AGAIN_SECONDS = 5.0  # longer than a connection's way back into its pool
MOST_NAMED = 10  # of what is waited for

log = structlog.get_logger()


def end_within(seconds: float, service: str) -> None:
    """Ends this process with CUT_SHORT after `seconds`, unless it has ended by then.

    By a thread: it may be the loop that hangs, or what Python waits for after it. Nothing is cancelled first. The
    database sees its connections close, as with `terminate`, and brings every commit that it was asked for to its end;
    to cancel one might cut it while it waits for the standby.
    """
    timer = threading.Timer(seconds, _cut_short, (asyncio.get_running_loop(), seconds, service))
    timer.daemon = True  # or it would keep a process that has ended
    timer.start()


async def cancel(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancels them and waits; again those that go on, for a cancellation may be lost: `asyncio.wait_for` of Python 3.11
    drops one that comes together with what it waits for."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_SECONDS)


def _cut_short(loop: asyncio.AbstractEventLoop, seconds: float, service: str) -> None:
    try:
        speaker = threading.Thread(target=_say, args=(loop, seconds, service), daemon=True)
        speaker.start()
        speaker.join(SAY_SECONDS)
    finally:
        os._exit(CUT_SHORT)


def _say(loop: asyncio.AbstractEventLoop, seconds: float, service: str) -> None:
    names: set[str] = set()
    with contextlib.suppress(RuntimeError):  # the loop's tasks may change meanwhile
        names = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks(loop)}
    log.error("did not end in time", service=service, seconds=seconds, waits_for=sorted(names)[:MOST_NAMED])
