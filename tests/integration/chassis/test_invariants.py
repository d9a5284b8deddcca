"""How operators are told of promises, whichever service checks them."""

from rowlock.invariant.v1.invariant_pb2 import CheckInvariantsRequest
from rowlock.invariant.v1.invariant_pb2_grpc import InvariantAdminServiceStub

from chassis.invariants import Invariant, invariant_service
from tests.support.servers import Servers

FOUND = [
    Invariant("kept", "Nothing.", 0, ()),
    Invariant("broken_in_many_places", "Much.", 12, [f"ord_s1_{number}" for number in range(12)]),
    Invariant("not_known", "Who knows.", 0, (), ["s2: there is no connection"]),
    Invariant("broken_and_not_known", "This at least.", 1, ["ord_s1_1"], ["s2: there is no connection"]),
]


async def check_invariants() -> list[Invariant]:
    return FOUND


async def test_check_invariants_tells_ten_examples_at_most_and_no_zero_of_what_is_not_known(servers: Servers) -> None:
    stub = InvariantAdminServiceStub(await servers.start(invariant_service(check_invariants)))
    told = (await stub.CheckInvariants(CheckInvariantsRequest())).invariants
    assert {found.name: (found.violations, len(found.examples), len(found.unchecked)) for found in told} == {
        "kept": (0, 0, 0),
        "broken_in_many_places": (12, 10, 0),
        "not_known": (-1, 0, 1),
        "broken_and_not_known": (1, 1, 1),
    }
    assert [found.description for found in told] == [found.description for found in FOUND]
