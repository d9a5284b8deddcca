"""A replay commits something before it answers, so that what it answers is on the standby too. (An outcome told again
locks rows, which is something.)"""

import pytest

from tests.integration.booking.booth import Booth
from tests.integration.booking.test_booking_races import connections, guarded_or_not, hold, order, take_out

EMIT = "PERFORM pg_logical_emit_message(true, 'replay', '');"


@guarded_or_not
@pytest.mark.parametrize("function", ["hold_seats", "create_order"])
async def test_a_replay_has_something_to_commit(booth: Booth, function: str, guarded: bool) -> None:
    async with connections(booth, 1) as (connection,):
        held = (await hold(connection, "ann", "k", 1))["hold_id"][0]
        await order(connection, "ann", held)
        if not guarded:
            await take_out(booth, function, EMIT, instead="NULL;")
        async with connection.transaction():
            if function == "hold_seats":
                assert (await hold(connection, "ann", "k", 1))["verdict"] == ["REPLAY"]
            else:
                assert (await order(connection, "ann", held))["verdict"] == "REPLAY"
            number = await connection.fetchval("SELECT pg_current_xact_id_if_assigned()")
    assert (number is not None) == guarded
