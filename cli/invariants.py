"""`rowlock invariants`: every service is asked whether one of its promises broke."""

from typing import Any, NamedTuple

from rowlock.booking.v1 import booking_pb2
from rowlock.booking.v1.booking_pb2_grpc import BookingAdminServiceStub
from rowlock.catalog.v1 import catalog_pb2
from rowlock.catalog.v1.catalog_pb2_grpc import CatalogAdminServiceStub
from rowlock.payments.v1 import payments_pb2
from rowlock.payments.v1.payments_pb2_grpc import PaymentsAdminServiceStub
from rowlock.seatfeed.v1 import seatfeed_pb2
from rowlock.seatfeed.v1.seatfeed_pb2_grpc import SeatFeedAdminServiceStub
from rowlock.waitingroom.v1 import waitingroom_pb2
from rowlock.waitingroom.v1.waitingroom_pb2_grpc import WaitingRoomAdminServiceStub

from cli.endpoints import SERVICES
from cli.errors import CliError
from cli.output import working
from cli.services import Service

STUBS: dict[str, tuple[Any, Any]] = {
    "catalog": (CatalogAdminServiceStub, catalog_pb2),
    "booking": (BookingAdminServiceStub, booking_pb2),
    "payments": (PaymentsAdminServiceStub, payments_pb2),
    "waitingroom": (WaitingRoomAdminServiceStub, waitingroom_pb2),
    "seatfeed": (SeatFeedAdminServiceStub, seatfeed_pb2),
}


class Checked(NamedTuple):
    """What one service said: its invariants, or why it said nothing."""

    service: str
    invariants: list[Any]
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


def verdict_on(invariant: Any) -> str:
    """How many rows break it, `kept`, or `not known`; with a mark when a part of the service could not be asked."""
    if invariant.violations < 0:
        return "not known"
    found = str(invariant.violations or "kept")
    return f"{found}, not all known" if invariant.unchecked else found


def _check(name: str) -> list[Any]:
    stub, messages = STUBS[name]
    service = Service(name)
    answer = service.ask(stub(service.channel).CheckInvariants, messages.CheckInvariantsRequest())
    return list(answer.invariants)
