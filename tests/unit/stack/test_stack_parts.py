"""What the parts are told, and how their logs are followed."""

from pathlib import Path

import pytest

from stack.follow import Tail
from stack.keys import load_secrets
from stack.parts import WAVES, Part, Plan
from stack.ports import DISTANCES, Ports
from stack.settings import Home
from stack.stopping import STOP_SECONDS
from stack.stores import choose_stores


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, Part]:
    home, ports = Home(tmp_path), Ports(8080)
    home.make()
    secrets = load_secrets(home)
    plan = Plan(home, secrets, ports, choose_stores("s1", secrets, ports, {}))
    return {part.name: part for part in plan.parts()}


def test_engines_start_first_and_the_edge_last(parts: dict[str, Part]) -> None:
    waves = [WAVES.index(part.wave) for part in parts.values()]
    assert waves == sorted(waves)
    assert next(iter(parts)) == "postgres"
    assert list(parts)[-1] == "gateway"


def test_every_service_has_had_its_time_before_it_is_killed(parts: dict[str, Part]) -> None:
    names = ("DRAIN_SECONDS", "CLOSE_SECONDS")
    told = [[float(text) for name, text in part.variables.items() if name.endswith(names)] for part in parts.values()]
    bounds = [seconds for seconds in told if seconds]
    assert len(bounds) >= 5
    assert all(len(seconds) == 2 and sum(seconds) < STOP_SECONDS for seconds in bounds)


def test_every_port_belongs_to_one_part(parts: dict[str, Part]) -> None:
    ports = [port for part in parts.values() for port in part.ports]
    assert sorted(ports) == sorted(DISTANCES)


def test_booking_runs_twice_and_its_callers_know_both(parts: dict[str, Part]) -> None:
    one, two = parts["booking-1"].environment(), parts["booking-2"].environment()
    assert one["ROWLOCK_BOOKING_LISTEN"] == "127.0.0.1:8092"
    assert two["ROWLOCK_BOOKING_LISTEN"] == "127.0.0.1:8094"
    assert one["ROWLOCK_BOOKING_SHARDS"] == two["ROWLOCK_BOOKING_SHARDS"]
    target = parts["payments"].environment()["ROWLOCK_PAYMENTS_BOOKING_TARGET"]
    assert target == "ipv4:127.0.0.1:8092,127.0.0.1:8094"


def test_environment_of_the_person_wins_but_not_over_where_to_listen(
    parts: dict[str, Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWLOCK_PAYMENTS_PROCESSOR_URL", "https://processor.example")
    monkeypatch.setenv("ROWLOCK_PAYMENTS_LISTEN", "127.0.0.1:1")
    environment = parts["payments"].environment()
    assert environment["ROWLOCK_PAYMENTS_PROCESSOR_URL"] == "https://processor.example"
    assert environment["ROWLOCK_PAYMENTS_LISTEN"] == "127.0.0.1:8096"


def test_secrets_are_told_to_those_alone_who_need_them(parts: dict[str, Part], tmp_path: Path) -> None:
    signing_keys = load_secrets(Home(tmp_path)).signing_keys
    knowing = {name for name, part in parts.items() if signing_keys in part.variables.values()}
    assert knowing == {"waitingroom", "gateway"}


def test_tail_gives_whole_lines_that_are_new(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("old\n")
    tail = Tail(log)
    assert tail.lines() == []
    with log.open("a") as file:
        file.write("one\ntw")
        file.flush()
        assert tail.lines() == ["one"]
        file.write("o\n")
    assert tail.lines() == ["two"]
    log.rename(tmp_path / "x.log.old")
    log.write_text("new\n")
    assert tail.lines() == ["new"]
