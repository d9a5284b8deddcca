"""What a hold costs: `make bench-hold`.

CPU of the server and of Postgres per call, over that of an empty call on a bare grpc.aio server in the same run; the
callers are a process of their own and not counted. The median of rounds in which the kinds of calls take turns, so that
what else the machine does falls on all of them.
"""

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.booking.v1 import booking_pb2 as pb
from rowlock.booking.v1 import booking_pb2_grpc
from rowlock.money.v1.money_pb2 import Money

from chassis.migrate import migrate
from stack.engines import POSTGRES_STOP, postgres_binary, postgres_command
from tests.load.callers import BLOCKS, CHOSEN, EVENTS, FOUGHT, SEATS, SINGLES, event_id
from tests.support.databases import migrations_of
from tests.support.engines import free_port

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "2.5"))  # of each kind in each round
WARM_SECONDS = 0.5
WARM_CALLS = 500  # at most
LONE_SECONDS = 1.5
FLIGHT = 64
CONFIRMS = 5000  # holds made for a round's orders
LONE_CALLS = 1500  # more than one caller can make in LONE_SECONDS
# So that the seats last for all rounds; a fast machine makes so many calls sooner than SECONDS.
MOST = {
    "hold": SINGLES // ROUNDS - CONFIRMS - LONE_CALLS - WARM_CALLS,
    "hold4": BLOCKS // ROUNDS - WARM_CALLS,
    "best": len(CHOSEN) * SEATS // 4 // ROUNDS - WARM_CALLS,  # half of the seats: none of these events sells out
    "confirm": CONFIRMS - WARM_CALLS,
}
START_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")
SEATS_PER_ROW = 50

UPDATE = """\\set id random(1, 200000)
UPDATE one SET state = 'HELD', hold_id = :id, hold_expires_at = clock_timestamp()
 WHERE seat_id = :id AND state = 'AVAILABLE';
"""
ONE = """
CREATE TABLE one (seat_id int PRIMARY KEY, state text NOT NULL, hold_id bigint, hold_expires_at timestamptz)
  WITH (fillfactor = 70);
INSERT INTO one SELECT number, 'AVAILABLE' FROM generate_series(1, 200000) number;
VACUUM ANALYZE one;
"""


@dataclass(frozen=True)
class House:
    """What runs, and the processes to count."""

    dsn: str
    postgres: int
    bare: int
    ours: int
    booking: int
    targets: dict[str, str]
    callers: "subprocess.Popen[str]"

    def call(self, target: str, what: str, **options: Any) -> dict[str, Any]:
        """Lets the callers call; what they measured. Any refusal but that of a lost fight is a defect."""
        assert self.callers.stdin
        assert self.callers.stdout
        order = {"what": what, "target": self.targets[target], "flight": FLIGHT, "seconds": SECONDS, **options}
        print(json.dumps(order), file=self.callers.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.callers.stdout.readline())
        if answer["refused"].keys() - ({"SEAT_UNAVAILABLE"} if what == "fight" else set()):
            raise SystemExit(f"{what}: refused {answer['refused']}")
        return answer


def main() -> None:
    """Prints a line for each kind of call, and the ratios in the last one."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {ROUNDS} rounds, {FLIGHT} calls in flight")
    with open_house() as house:
        best = has_best_available(house)
        rounds, lone = defaultdict[str, list[dict[str, float]]](list), defaultdict[str, list[float]](list)
        for _ in range(ROUNDS):
            play_round(house, rounds, best)
            for target, what in (("ours", "empty"), ("booking", "hold")):
                lone[what].append(house.call(target, what, flight=1, seconds=LONE_SECONDS, most=LONE_CALLS)["p50"])
        fights = [fight(house, number) for number in range(ROUNDS)]
        update = pgbench_update(house)
    middle = {what: {k: statistics.median(m[k] for m in found) for k in found[0]} for what, found in rounds.items()}
    report(middle, {what: statistics.median(found) for what, found in lone.items()}, fights, update)


def play_round(house: House, rounds: dict[str, list[dict[str, float]]], best: bool) -> None:
    """Each kind of call once."""
    rounds["bare"].append(cost(house, "bare", "empty", house.bare))
    rounds["empty"].append(cost(house, "ours", "empty", house.ours))
    for what in ("hold", "hold4", *(["best"] if best else [])):
        rounds[what].append(cost(house, "booking", what, house.booking, house.postgres))
    house.call("booking", "prepare", most=CONFIRMS, seconds=60)
    rounds["confirm"].append(cost(house, "booking", "confirm", house.booking, house.postgres))


def fight(house: House, number: int) -> dict[str, Any]:
    """FLIGHT callers want seats that are free: those of the fight before are still held."""
    return house.call("booking", "fight", most=FLIGHT, first_fought=1 + FOUGHT * number)


def cost(house: House, target: str, what: str, server: int, postgres: int = 0) -> dict[str, float]:
    """CPU microseconds per call, and what the callers saw."""
    house.call(target, what, seconds=WARM_SECONDS, most=WARM_CALLS)
    before = cpu(server), cpu(postgres)
    seen = house.call(target, what, most=MOST.get(what))
    spent = cpu(server) - before[0], cpu(postgres) - before[1]
    of_server, of_postgres = (seconds / seen["calls"] * 1e6 for seconds in spent)
    measured = {name: seen[name] for name in ("rate", "p50", "p99")}
    return {"cpu": of_server + of_postgres, "server": of_server, "postgres": of_postgres, **measured}


def cpu(pid: int) -> float:
    """Seconds of a process and of its children, those that ended too; 0 for none."""
    if not pid:
        return 0.0
    ticks = sum(map(int, _stat(pid)[11:15]))
    for other in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = _stat(int(other))
        except OSError:
            continue  # it has ended meanwhile, and its parent counts it
        if int(fields[1]) == pid:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def has_best_available(house: House) -> bool:
    """Whether the house chooses seats."""
    try:
        house.call("booking", "best", most=1)
    except SystemExit:
        return False
    return True


def pgbench_update(house: House) -> float:
    """Microseconds of the guarded UPDATE of one seat, prepared, from one client of pgbench."""

    async def make() -> None:
        connection = await asyncpg.connect(house.dsn)
        for statement in filter(str.strip, ONE.split(";")):
            await connection.execute(statement)
        await connection.close()

    asyncio.run(make())
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(UPDATE)
        script.flush()
        argv = [str(postgres_binary("pgbench")), "-n", "-M", "prepared", "-c1", "-T4", "-f", script.name, house.dsn]
        out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = re.search(r"latency average = ([\d.]+) ms", out)
    assert found, out
    return float(found[1]) * 1e3


def report(
    middle: dict[str, dict[str, float]], lone: dict[str, float], fights: list[dict[str, Any]], update: float
) -> None:
    """For people, and the last line for programs."""
    bare = middle["bare"]["cpu"]
    for what, m in middle.items():
        print(
            f"{what:8}{m['cpu']:5.0f} µs = server {m['server']:.0f} + postgres {m['postgres']:.0f};"
            f" ×{m['cpu'] / bare:.2f}; {m['rate']:.0f}/s, p50 {m['p50'] / 1e3:.1f} ms, p99 {m['p99'] / 1e3:.1f} ms"
        )
    added = lone["hold"] - lone["empty"]
    print(f"alone: hold {lone['hold']:.0f} µs, empty {lone['empty']:.0f} µs; pgbench's UPDATE {update:.0f} µs")
    losers = max(each["refused_p99"] for each in fights)
    times = losers / middle["hold"]["p99"]
    print(f"{FLIGHT} for {FOUGHT} seats: losers' p99 {losers / 1e3:.1f} ms, ×{times:.2f} of a hold's")
    ratios = {what: f"{middle[what]['cpu'] / bare:.2f}" for what in middle if what != "bare"}
    print(
        *(f"{what}_ratio={ratios.get(what, '-')}" for what in ("empty", "hold", "hold4", "best", "confirm")),
        f"lone_hold_vs_pgbench={added / update:.2f}",
        f"holds_per_second={middle['hold']['rate']:.0f}",
    )


@contextmanager
def open_house() -> Iterator[House]:
    """Postgres as the embedded stack runs it, booking as a process with its workers, and the two empty servers."""
    scratch = Path(tempfile.mkdtemp(prefix="rowlock-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        port = free_port()
        argv = postgres_command(scratch / "postgres", port)
        _run(stack, argv, stop=POSTGRES_STOP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        asyncio.run(_prepare(dsn))
        bare, bare_port = _empty_server(stack, "bare")
        ours, ours_port = _empty_server(stack, "ours")
        booking_port = free_port()
        booking = _run(stack, [sys.executable, "-m", "services.booking"], env=_booking_env(dsn, booking_port))
        target = f"127.0.0.1:{booking_port}"
        asyncio.run(_put_events(target))
        callers = _run(stack, [sys.executable, "-m", "tests.load.callers"], **PIPED)
        postmaster = int((scratch / "postgres" / "postmaster.pid").read_text().split()[0])
        targets = {"bare": f"127.0.0.1:{bare_port}", "ours": f"127.0.0.1:{ours_port}", "booking": target}
        yield House(dsn, postmaster, bare.pid, ours.pid, booking.pid, targets, callers)


PIPED: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def _run(stack: ExitStack, argv: list[str], stop: int = 15, **options: Any) -> "subprocess.Popen[Any]":
    process = subprocess.Popen(argv, **options)

    def end() -> None:
        process.send_signal(stop)
        process.wait(START_SECONDS)

    stack.callback(end)
    return process


def _empty_server(stack: ExitStack, which: str) -> "tuple[subprocess.Popen[str], int]":
    process = _run(stack, [sys.executable, "-m", "tests.load.empty_server", which], stderr=subprocess.DEVNULL, **PIPED)
    return process, int(process.stdout.readline())  # type: ignore[union-attr]


def _booking_env(dsn: str, port: int) -> dict[str, str]:
    settings = {
        "LISTEN": f"127.0.0.1:{port}",
        "SHARDS": f"s1={dsn}",
        "PAYMENTS_TARGET": f"127.0.0.1:{free_port()}",  # nobody: what a charge costs is no part of a confirm
        "MONITOR_SECONDS": "3600",  # a check of the invariants reads every seat
        "LOG_LEVEL": "ERROR",
    }
    return {**os.environ, **{f"ROWLOCK_BOOKING_{name}": value for name, value in settings.items()}}


async def _prepare(dsn: str) -> None:
    for _ in range(START_SECONDS * 10):
        try:
            connection = await asyncpg.connect(dsn)
            break
        except (OSError, asyncpg.PostgresError):
            await asyncio.sleep(0.1)
    else:
        raise SystemExit("Postgres did not start")
    await connection.close()
    await migrate(dsn, migrations_of("booking"), {"rowlock.shard": "s1"})


async def _put_events(target: str) -> None:
    async with grpc.aio.insecure_channel(target) as channel:
        await asyncio.wait_for(channel.channel_ready(), START_SECONDS)
        stub = booking_pb2_grpc.BookingInternalServiceStub(channel)
        for number in range(1, EVENTS + 1):
            await stub.PutInventory(_inventory(number))


def _inventory(number: int) -> pb.PutInventoryRequest:
    now, money = datetime.now(UTC), Money(currency_code="EUR", amount_minor=5000)
    return pb.PutInventoryRequest(
        event_id=event_id(number),
        version=1,
        name=f"Night {number}",
        sale_start_time=_timestamp(now - timedelta(hours=1)),
        sale_end_time=_timestamp(now + timedelta(days=1)),
        tickets_per_account=8,
        hold_seconds=600,
        holds_per_account=20,
        tiers=[pb.InventoryTier(tier=tier, name=f"Tier {tier}", price=money, fee=money) for tier in range(1, 4)],
        seats=[_seat(seat) for seat in range(1, SEATS + 1)],
    )


def _seat(seat: int) -> pb.InventorySeat:
    row, place = divmod(seat - 1, SEATS_PER_ROW)
    return pb.InventorySeat(
        seat_id=seat,
        section=f"Section {row // 20}",
        row=str(row % 20 + 1),
        number=str(place + 1),
        tier=1 + row % 3,
        row_index=row % 20,
        x=place * 60,
        y=row * 90,
    )


def _timestamp(time: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


if __name__ == "__main__":
    main()
