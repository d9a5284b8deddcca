"""`rowlock invariants`: every service is asked whether one of its promises broke."""

from typing import NamedTuple

from rowlock.invariant.v1.invariant_pb2 import CheckInvariantsRequest, Invariant
from rowlock.invariant.v1.invariant_pb2_grpc import InvariantAdminServiceStub

from cli.endpoints import SERVICES
from cli.errors import CliError
from cli.output import working
from cli.services import Service


class Checked(NamedTuple):
    """What one service said: its invariants, or why it said nothing."""

    service: str
    invariants: list[Invariant]
    error: CliError | None


def check_all(*, quiet: bool) -> list[Checked]:
    """Every service, also when one of them does not answer."""
    checked = []
    for name in SERVICES:
        with working(f"asking {name}", quiet=quiet):
            try:
                checked.append(Checked(name, _check(name), None))
            except CliError as error:
                checked.append(Checked(name, [], error))
    return checked


def verdict_on(invariant: Invariant) -> str:
    """How many rows break it, `kept`, or `not known`; with a mark when a part of the service could not be asked."""
    if invariant.violations < 0:
        return "not known"
    found = str(invariant.violations or "kept")
    return f"{found}, not all known" if invariant.unchecked else found


def _check(name: str) -> list[Invariant]:
    service = Service(name)
    answer = service.ask(InvariantAdminServiceStub(service.channel).CheckInvariants, CheckInvariantsRequest())
    return list(answer.invariants)
