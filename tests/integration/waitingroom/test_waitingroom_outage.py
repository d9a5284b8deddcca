"""The store away, hung, empty or part of a cluster."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from chassis.errors import Unavailable
from services.waitingroom.admitter import Admitter
from services.waitingroom.errors import EventNotFound
from services.waitingroom.store import scripts
from stack.engines import valkey_command
from tests.integration.waitingroom.room import EVENT, Room
from tests.support.engines import free_port

CLUSTER = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-port")


class Store:
    """A server of the test's own, to be ended and hung."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory, self.options, self.port = directory, options, free_port()

    def start(self) -> None:
        argv = [*valkey_command(self.directory, self.port), *self.options]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                with redis.Redis(port=self.port) as client:
                    client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.05)
        raise RuntimeError("the server did not start")

    def own_all_slots(self) -> None:
        """Makes a server with `--cluster-enabled` a cluster of one."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            client.cluster("ADDSLOTSRANGE", 0, 16383)
            for _ in range(200):
                if client.cluster("INFO")["cluster_state"] == "ok":
                    return
                time.sleep(0.05)
        raise RuntimeError("the cluster is not ready")

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    running = Store(tmp_path / "store")
    running.start()
    yield running
    running.stop()


@pytest.fixture
def patience() -> None:
    """None: the store is away."""


@pytest.fixture
async def room(store: Store) -> AsyncIterator[Room]:
    opened = Room.open(f"redis://127.0.0.1:{store.port}/0")
    opened.at(0)
    await opened.announce()
    yield opened
    await opened.client.aclose()


async def seconds_until_refused(room: Room) -> float:
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await room.join("ann")
    return time.monotonic() - began


async def test_calls_are_refused_at_once_while_the_store_is_gone_and_answered_when_it_is_back(
    store: Store, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await room.join("ann") == 1
    admitter = Admitter(room.lines)
    store.stop()
    with monkeypatch.context() as patched:
        patched.setattr(scripts, "CALL_SECONDS", 100)
        assert await seconds_until_refused(room) < 50
    await admitter.run_once()
    assert admitter.away
    store.start()
    try:
        assert await room.join("ann") == 1  # the stack's server keeps its log on disk
    except EventNotFound:
        await room.announce()
        assert await room.join("ann") == 1
    await admitter.run_once()
    assert not admitter.away


async def test_calls_are_refused_in_time_while_the_store_hangs(
    store: Store, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CALL_SECONDS", "ANSWER_SECONDS"):  # twice as long, so that a slow machine does not look like a try
        monkeypatch.setattr(scripts, name, 2 * getattr(scripts, name))
    room = Room.open(f"redis://127.0.0.1:{store.port}/0")
    room.at(0)
    store.signal(signal.SIGSTOP)
    waits = await asyncio.gather(*(seconds_until_refused(room) for _ in range(200)))
    assert max(waits) < 7.5  # two tries of the client's own would take 8
    store.signal(signal.SIGCONT)
    assert await room.join("ann") == 1
    assert await room.join("bob") == 2
    await room.client.aclose()


async def test_scripts_are_loaded_again_where_they_are_not_known(room: Room) -> None:
    await room.client.script_flush()
    assert await room.join("ann") == 1
    assert (await room.lines.tick(EVENT)).advanced == 1


async def test_every_script_keeps_to_one_slot_of_a_cluster(tmp_path: Path) -> None:
    node = Store(tmp_path / "node", *CLUSTER, str(free_port()))
    node.start()
    try:
        node.own_all_slots()
        room = Room.open(f"redis://127.0.0.1:{node.port}/0")
        room.at(0)
        await room.announce()
        await room.join("ann")
        await room.lines.tick(EVENT)
        await room.enter("ann", 1)
        await room.leases.heartbeat(EVENT, "ann")
        assert all(check.violations == 0 for check in await room.lines.check_line(EVENT))
        await room.leave("ann", 1)
        assert (await room.lines.get_line(EVENT)).in_flight == 0
        with pytest.raises(redis.ResponseError, match="same slot"):
            await room.client.eval("return 1", 2, "one", "another")
        await room.client.aclose()
    finally:
        node.stop()
