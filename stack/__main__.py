"""`python -m stack`: the embedded stack, up and down."""

import argparse
import json
import os
import signal
import sys
from typing import Any

from chassis.settings import load_settings
from stack.errors import StackError
from stack.follow import follow
from stack.house import House
from stack.processes import Processes
from stack.settings import Home, StackSettings
from stack.stopping import reset, stop

NOT_RUNNING = 3  # what a service's `status` says by custom

SETTINGS_HELP = """Settings, from the environment:
""" + "\n".join(
    f"  {field.validation_alias or f'ROWLOCK_STACK_{name.upper()}'} ({field.default}): {field.description}"
    for name, field in StackSettings.model_fields.items()
)


def main() -> None:
    """Exit status 1 with one sentence when something is in the way."""
    arguments = parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a script's `make up &` begins with it ignored
        signal.signal(number, interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, interrupt)
    try:
        sys.exit(arguments.run(load_settings(StackSettings), arguments))
    except StackError as error:
        print(f"rowlock: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # `… | head`: nobody reads any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("Interrupted; what this command had started is stopped.", file=sys.stderr)
        sys.exit(130)


def parser() -> argparse.ArgumentParser:
    """The commands."""
    top = argparse.ArgumentParser(
        prog="python -m stack",
        description=__doc__,
        epilog=SETTINGS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("up", run_up, "start, follow the logs, stop everything on Ctrl-C"),
        ("start", run_start, "start in the background what does not run yet; return when it is ready"),
        ("stop", run_stop, "stop everything; what was sold is kept"),
        ("status", run_status, f"what runs; exit status {NOT_RUNNING} unless all of it does"),
        ("reset", run_reset, "stop, and delete all data, logs and secrets"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        if name in ("up", "start"):
            command.add_argument("--only", metavar="PART,…", default="", help="these parts alone (for developers)")
        if name == "status":
            command.add_argument("--json", action="store_true", help="for programs")
    return top


def run_up(settings: StackSettings, arguments: argparse.Namespace) -> int:
    """Start, follow, stop."""
    house = House(settings)
    house.start(only_of(arguments))
    try:
        print_where_to_go(house)
        print("\nFollowing the logs; Ctrl-C stops everything.\n", flush=True)
        follow({part.name: house.home.log(part.name) for part in house.parts}, house.dead)
    except KeyboardInterrupt:
        print("\nStopping Rowlock.", flush=True)
    finally:
        stop(house.home)
    return 0


def run_start(settings: StackSettings, arguments: argparse.Namespace) -> int:
    """Start, and say where to go."""
    house = House(settings)
    house.start(only_of(arguments))
    print_where_to_go(house)
    return 0


def run_stop(settings: StackSettings, _: argparse.Namespace) -> int:
    """Stop, in any state."""
    stopped = stop(Home(settings.home))
    print(f"Stopped {', '.join(stopped)}." if stopped else "Nothing was running.")
    return 0


def run_status(settings: StackSettings, arguments: argparse.Namespace) -> int:
    """A table, or JSON."""
    running = Processes(Home(settings.home)).all_running()
    if running:  # where it was started, whatever the environment says by now
        settings = settings.model_copy(update={"base_port": running[0].base_port})
    status = House(settings).status()
    print(json.dumps(status, indent=2) if arguments.json else table_of(status))
    return 0 if status["state"] == "running" else NOT_RUNNING


def run_reset(settings: StackSettings, arguments: argparse.Namespace) -> int:
    """Stop, delete, and say what."""
    home = Home(settings.home)
    run_stop(settings, arguments)
    deleted = reset(home)
    print("\n".join(f"Deleted {path}" for path in deleted) or f"There was nothing in {home.directory} to delete.")
    return 0


def only_of(arguments: argparse.Namespace) -> list[str]:
    """`a,b` as a list."""
    return [name.strip() for name in arguments.only.split(",") if name.strip()]


def print_where_to_go(house: House) -> None:
    """The last thing a start says."""
    running = {record.part for record in house.processes.all_running()}
    lines = [
        ("page", f"Buy a ticket   {house.ports.url('gateway')}/"),
        ("gateway", f"API            {house.ports.url('gateway')}/v1/events"),
        ("issuer", f"Sign-in        {house.ports.url('issuer')}/.well-known/openid-configuration"),
        ("processor", f"Charges        {house.ports.url('processor')}/sandbox/ledger"),
    ]
    whole = len(running) == len(house.parts)
    print("\nRowlock is ready.\n" if whole else f"\nReady in part: {', '.join(sorted(running))}.\n")
    print("".join(f"  {line}\n" for part, line in lines if part in running), end="")
    print(f"  Logs           {house.home.logs}/\n\n  make onsale · make status · make stop", flush=True)


def table_of(status: dict[str, Any]) -> str:
    """One line a part."""
    lines = [f"{'part':<12} {'state':<10} {'pid':>8} {'up':>8}  address"]
    for part in status["parts"]:
        up = f"{part['up_seconds']} s" if part["up_seconds"] is not None else "-"
        lines.append(f"{part['part']:<12} {part['state']:<10} {part['pid'] or '-':>8} {up:>8}  {part['address']}")
    return "\n".join([*lines, "", f"{status['state']}, in {status['home']}"])


def interrupt(*_: object) -> None:
    """SIGTERM and a closed terminal end a command as Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
