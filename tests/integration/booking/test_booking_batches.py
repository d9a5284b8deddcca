"""`hold_seats` with several requests in one call."""

import asyncpg

from services.booking.requests import fingerprint
from services.booking.rows import HoldRequest, HoldVerdict
from services.booking.store.holds import hold_seats
from tests.integration.booking.booth import Booth
from tests.integration.booking.test_booking_holds import GRACE


def request(account: str, *seats: int, event: int = 7, key: str = "k") -> HoldRequest:
    """One element of a batch."""
    return HoldRequest(account, event, key, fingerprint(seats), seats)


async def ask(booth: Booth, *requests: HoldRequest) -> list[HoldVerdict]:
    """A batch, which waits for nothing."""
    return await hold_seats(booth.shards["s1"], requests, grace=GRACE, wait=False)


async def test_a_batch_gives_each_request_its_own_verdict(booth: Booth) -> None:
    (first,) = await ask(booth, request("ann", 1, 2))
    expired = await booth.hold("old", 9, 10)
    await booth.age(expired.hold_id, 1)
    verdicts = await ask(
        booth,
        request("ann", 1, 2),
        request("bob", 2, 3),
        request("cid", 4, 5),
        request("dan", *range(11, 20)),
        request("eve", 6, event=8),
        request("fay", 9),
        request("gus", 7, 999),
    )
    words = [verdict.word for verdict in verdicts]
    assert words == ["REPLAY", "LOST", "HELD", "CAP", "NO_EVENT", "HELD", "BUSY"]
    assert verdicts[0].hold == first.hold
    assert verdicts[1].lost_seats == (2,)
    held = await booth.execute(
        "SELECT h.account, array_agg(s.seat_id ORDER BY s.seat_id) AS seats FROM seat s"
        " JOIN hold h USING (hold_id) WHERE s.hold_expires_at > clock_timestamp()"
        " GROUP BY h.account ORDER BY 1"
    )
    assert [tuple(row) for row in held] == [("ann", [1, 2]), ("cid", [4, 5]), ("fay", [9])]
    assert await booth.broken() == {}


async def test_a_request_that_meets_a_lock_is_busy_and_names_no_seat_lost(booth: Booth) -> None:
    await ask(booth, request("ann", 1))
    connection = await asyncpg.connect(booth.dsn)
    async with connection.transaction():
        await connection.execute("SELECT FROM seat WHERE seat_id = 2 FOR UPDATE")
        await connection.execute("SELECT pg_advisory_xact_lock(account_lock(7, 'dan'))")
        verdicts = await ask(booth, request("bob", 1, 2), request("cid", 3), request("dan", 4))
        assert [verdict.word for verdict in verdicts] == ["BUSY", "HELD", "BUSY"]
        assert all(not verdict.lost_seats for verdict in verdicts)
    await connection.close()
    assert [verdict.word for verdict in await ask(booth, request("bob", 1, 2), request("dan", 4))] == ["LOST", "HELD"]


async def test_a_batch_of_64(booth: Booth) -> None:
    requests = [request(f"fan-{number}", number % 20 + 1) for number in range(20)]
    verdicts = await ask(booth, *requests, *(request(f"late-{number}", 100 + number) for number in range(44)))
    assert [verdict.word for verdict in verdicts] == ["HELD"] * 20 + ["BUSY"] * 44
    assert len({verdict.hold for verdict in verdicts[:20]}) == 20
    rows = await booth.execute(
        "SELECT bool_and(h.account = 'fan-' || (s.seat_id - 1)) AS own FROM seat s JOIN hold h USING (hold_id)"
    )
    assert rows[0]["own"]
    assert await booth.broken() == {}
