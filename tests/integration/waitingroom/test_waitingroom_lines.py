"""What a line does with accounts, positions and leases, call by call, with its clock in the test's hands."""

import pytest
from redis.crc import key_slot

from services.waitingroom.admitter import Admitter
from services.waitingroom.errors import AdmissionMissed, EventNotFound, LeaseEnded, NotOnSale, NotYet
from services.waitingroom.line import state_of
from services.waitingroom.rows import LineState, Policy, PositionState, Sales, Terms
from services.waitingroom.store.leases import LeaseStore
from services.waitingroom.store.scripts import keys_of
from tests.integration.waitingroom.room import EVENT, START, Room


async def in_flight(room: Room) -> int:
    return (await room.lines.get_line(EVENT)).in_flight


async def state(room: Room) -> LineState:
    return state_of(await room.lines.get_line(EVENT))


async def test_join_line_gives_dense_positions_and_the_same_again(room: Room) -> None:
    await room.announce()
    assert [await room.join(account) for account in ("ann", "bob", "ann", "eve", "bob")] == [1, 2, 1, 3, 2]
    assert (await room.lines.get_line(EVENT)).tail == 3


async def test_nobody_knows_an_event_that_was_not_announced(room: Room) -> None:
    for call in (room.join("ann"), room.lines.get_line(EVENT), room.enter("ann", 1)):
        with pytest.raises(EventNotFound):
            await call
    with pytest.raises(EventNotFound):
        await room.leases.heartbeat(EVENT, "ann")
    with pytest.raises(EventNotFound):
        await room.leave("ann", 1)
    assert await room.client.keys() == []


async def test_put_line_policy_of_an_older_version_changes_nothing(room: Room) -> None:
    assert await room.lines.put_line_policy(EVENT, Policy(2, True, 7, 0, 0))
    assert not await room.lines.put_line_policy(EVENT, Policy(1, True, 99, 0, 0))
    assert not await room.lines.put_line_policy(EVENT, Policy(2, True, 99, 0, 0))
    assert (await room.lines.get_line(EVENT)).capacity == 7
    assert await room.lines.list_lines() == [EVENT]


async def test_put_line_policy_keeps_epoch_and_positions(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    epoch = (await room.lines.get_line(EVENT)).epoch
    room.at(100)
    await room.announce(capacity=3)
    line = await room.lines.get_line(EVENT)
    assert (line.epoch, line.tail, line.capacity) == (epoch, 1, 3)


async def test_nobody_is_admitted_before_the_sale_and_nobody_joins_after_it(room: Room) -> None:
    await room.announce(start=60, end=120)
    position = await room.join("ann")
    assert (await room.lines.tick(EVENT)).outcome == "NOT_ON_SALE"
    assert await state(room) is LineState.BEFORE_SALE
    with pytest.raises(NotYet) as refused:
        await room.enter("ann", position)
    assert refused.value.metadata == {"admittedThrough": "0"}
    room.at(59.5)
    assert (await room.lines.tick(EVENT)).advanced == 0
    room.at(60)
    assert (await room.lines.tick(EVENT)).advanced == 1
    assert await state(room) is LineState.MOVING
    room.at(120)
    assert (await room.lines.tick(EVENT)).outcome == "NOT_ON_SALE"
    assert await state(room) is LineState.ENDED
    for call in (room.join("bob"), room.enter("ann", position)):
        with pytest.raises(NotOnSale):
            await call


async def test_tick_never_passes_the_tail_nor_the_capacity(room: Room) -> None:
    await room.announce(capacity=3)
    await room.join("a1")
    assert (await room.lines.tick(EVENT)).advanced == 1
    for number in range(2, 10):
        await room.join(f"a{number}")
    room.at(0.5)
    assert (await room.lines.tick(EVENT)).advanced == 2
    for beat in range(2, 50):  # promised places are counted: nothing moves although nobody has come yet
        room.at(beat / 2)
        assert (await room.lines.tick(EVENT)).outcome == "STOOD"


async def test_a_clock_that_was_set_back_stops_no_line(room: Room) -> None:
    await room.announce()
    room.at(100)
    await room.lines.tick(EVENT)
    await room.join("ann")
    room.at(10)
    assert (await room.lines.tick(EVENT)).advanced == 1


async def test_tick_sooner_than_400_ms_does_nothing(room: Room) -> None:
    await room.announce()
    assert (await room.lines.tick(EVENT)).outcome == "STOOD"
    await room.join("ann")
    room.at(0.399)
    assert (await room.lines.tick(EVENT)).outcome == "TOO_SOON"
    room.at(0.4)
    assert (await room.lines.tick(EVENT)).outcome == "ADVANCED"


async def test_a_place_that_was_not_claimed_is_free_again_after_the_grace(room: Room) -> None:
    await room.announce(capacity=1)
    for account in ("ann", "bob"):
        await room.join(account)
    await room.lines.tick(EVENT)
    room.at(60)
    assert (await room.lines.tick(EVENT)).advanced == 0
    room.at(60.5)
    assert (await room.lines.tick(EVENT)).advanced == 1


async def test_a_line_that_cannot_be_moved_holds_up_no_other(room: Room) -> None:
    """Its data is damaged. A round that failed would be followed by longer and longer pauses, for every line."""
    await room.announce()
    await room.lines.put_line_policy("evt_s1_6", Policy(1, True, 10, 0, 0))
    await room.client.set(keys_of("evt_s1_6")[2], "no sorted set")
    await room.join("ann")
    assert await Admitter(room.lines).run_once() == 0
    assert (await room.lines.get_line(EVENT)).admitted_through == 1


async def test_enter_event_again_is_the_same_lease(room: Room) -> None:
    await room.announce()
    position = await room.join("ann")
    with pytest.raises(NotYet):
        await room.enter("ann", position)
    await room.lines.tick(EVENT)
    assert (await room.lines.join_line(EVENT, "ann")).state is PositionState.ADMITTED
    room.at(60)
    lease = await room.enter("ann", position)
    assert lease == START + 180_000
    room.at(100)
    assert await room.enter("ann", position) == lease
    assert (await room.lines.join_line(EVENT, "ann")).state is PositionState.ENTERED
    assert await in_flight(room) == 1


async def test_enter_event_after_the_grace_is_missed_and_joining_again_is_at_the_back(room: Room) -> None:
    await room.announce(capacity=2)
    for account in ("ann", "bob", "eve"):
        await room.join(account)
    await room.lines.tick(EVENT)
    room.at(60.001)
    for _ in range(2):
        with pytest.raises(AdmissionMissed):
            await room.enter("ann", 1)
    assert [await room.join("ann"), await room.join("ann")] == [4, 4]
    with pytest.raises(AdmissionMissed):
        await room.enter("ann", 1)
    with pytest.raises(NotYet):
        await room.enter("ann", 4)


async def test_enter_event_with_a_position_of_another_counting_or_account_is_missed(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    await room.join("bob")
    await room.lines.tick(EVENT)
    epoch = (await room.lines.get_line(EVENT)).epoch
    for account, position, of_epoch in (("ann", 1, epoch - 1), ("ann", 2, epoch), ("bob", 1, epoch)):
        with pytest.raises(AdmissionMissed):
            await room.leases.enter_event(EVENT, account, position, of_epoch)
    assert await in_flight(room) == 0


async def test_heartbeat_renews_a_live_lease_but_never_past_the_longest_stay(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    await room.lines.tick(EVENT)
    await room.enter("ann", 1)
    for beat in range(20, 900, 20):
        room.at(beat)
        lease = await room.leases.heartbeat(EVENT, "ann")
        assert lease.expires == START + min(beat + 120, 900) * 1000
    room.at(900)
    with pytest.raises(LeaseEnded):
        await room.leases.heartbeat(EVENT, "ann")
    with pytest.raises(LeaseEnded):
        await room.enter("ann", 1)
    assert await room.join("ann") == 2


async def test_heartbeat_by_a_process_of_shorter_leases_shortens_none(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    await room.lines.tick(EVENT)
    lease = await room.enter("ann", 1)
    hasty = LeaseStore(room.scripts, Terms(lease_seconds=1))
    assert (await hasty.heartbeat(EVENT, "ann")).expires == lease


async def test_heartbeat_does_not_bring_back_a_lease_that_ran_out(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    await room.lines.tick(EVENT)
    await room.enter("ann", 1)
    room.at(120)
    with pytest.raises(LeaseEnded):
        await room.leases.heartbeat(EVENT, "ann")
    assert await in_flight(room) == 0


async def test_leave_event_gives_back_the_lease_or_the_position(room: Room) -> None:
    await room.announce(capacity=1)
    for account in ("ann", "bob", "eve"):
        await room.join(account)
    await room.lines.tick(EVENT)
    await room.enter("ann", 1)
    for _ in range(2):
        await room.leave("ann", 1)
        await room.leave("bob", 2)
    with pytest.raises(LeaseEnded):
        await room.enter("ann", 1)
    with pytest.raises(LeaseEnded):
        await room.enter("bob", 2)
    room.at(0.5)
    assert (await room.lines.tick(EVENT)).advanced == 1
    assert [await room.join("bob"), await room.join("ann")] == [4, 5]


async def test_leave_event_with_an_older_position_gives_nothing_back(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    await room.lines.tick(EVENT)
    room.at(61)
    assert await room.join("ann") == 2
    await room.lines.tick(EVENT)
    await room.enter("ann", 2)
    await room.leave("ann", 1)
    assert await in_flight(room) == 1


async def test_leave_event_with_a_position_of_another_counting_gives_nothing_back(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    await room.leases.leave_event(EVENT, "ann", 1, await room.epoch() - 1)
    assert await room.join("ann") == 1
    await room.lines.tick(EVENT)
    await room.enter("ann", 1)
    await room.leases.leave_event(EVENT, "ann", 1, await room.epoch() - 1)
    assert await in_flight(room) == 1


async def test_report_sales_ends_leases_of_accounts_that_finished(room: Room) -> None:
    await room.announce(capacity=1500)
    accounts = [f"a{number}" for number in range(1, 1302)]
    inside = accounts[::50]  # the others have no lease to end; they are more than one script is told at once
    for account in inside:
        await room.join(account)
    await room.lines.tick(EVENT)
    for position, account in enumerate(inside, 1):
        await room.enter(account, position)
    assert await room.lines.report_sales(Sales(EVENT, 30, 6, (*accounts[1:], "stranger"))) == len(inside) - 1
    assert await room.lines.report_sales(Sales("evt_s1_8", 1, 1, ("a1",))) == 0
    room.at(0.5)
    await room.lines.tick(EVENT)
    line = await room.lines.get_line(EVENT)
    assert line.in_flight == 1
    assert line.commits_per_second == pytest.approx(5 * line.conflicts_per_second)
    assert line.conflicts_per_second > 0
    with pytest.raises(LeaseEnded):
        await room.leases.heartbeat(EVENT, inside[1])


async def test_an_event_without_a_line_admits_at_once(room: Room) -> None:
    await room.announce(line=False, capacity=0)
    assert await state(room) is LineState.OPEN
    joined = await room.lines.join_line(EVENT, "ann")
    assert (joined.position, joined.state) == (0, PositionState.ADMITTED)
    assert await room.enter("ann", 0) == START + 120_000
    room.at(20)
    assert (await room.leases.heartbeat(EVENT, "ann")).expires == START + 140_000
    assert (await room.lines.join_line(EVENT, "ann")).state is PositionState.ENTERED
    room.at(140)
    with pytest.raises(LeaseEnded):
        await room.leases.heartbeat(EVENT, "ann")
    assert await room.enter("ann", 0) == START + 260_000
    await room.leave("ann", 0)
    assert await in_flight(room) == 0
    assert await room.lines.list_lines() == []


async def test_an_event_without_a_line_keeps_no_leases_that_ended_and_nothing_for_ever(room: Room) -> None:
    await room.announce(line=False, capacity=0, end=1000)
    await room.enter("ann", 0)
    room.at(120)
    await room.enter("bob", 0)
    _, positions, _, _, leases, _ = keys_of(EVENT)
    assert await room.client.zrange(leases, 0, -1) == ["bob"]
    ends = [await room.client.pexpiretime(key) for key in (positions, leases)]
    assert ends == [START + 1_000_000 + 86_400_000] * 2


async def test_a_line_that_is_switched_off_admits_those_who_wait_and_switched_on_holds_them(room: Room) -> None:
    await room.announce(capacity=1)
    for account in ("ann", "bob"):
        await room.join(account)
    await room.announce(line=False)
    assert await room.enter("bob", 2) == START + 120_000
    await room.announce(capacity=1)
    assert await in_flight(room) == 1
    with pytest.raises(AdmissionMissed):
        await room.enter("eve", 0)
    assert (await room.lines.tick(EVENT)).advanced == 0


async def test_a_full_zone_pauses_the_line(room: Room) -> None:
    await room.announce(capacity=1)
    for account in ("ann", "bob"):
        await room.join(account)
    await room.lines.tick(EVENT)
    await room.enter("ann", 1)
    room.at(9.9)
    assert await state(room) is LineState.MOVING
    room.at(10)
    assert await state(room) is LineState.PAUSED


async def test_rate_and_eta_come_of_what_the_line_did(room: Room) -> None:
    await room.announce(capacity=100_000)
    for number in range(1200):
        await room.join(f"a{number}")
        if number % 10 == 9:
            room.at(number / 20)
            await room.lines.tick(EVENT)
    rate = (await room.lines.get_line(EVENT)).rate_per_second
    assert rate == pytest.approx(20 * (1 - 2.718 ** (-60 / 30)), rel=0.03)


async def test_keys_of_an_event_share_a_slot_and_end_a_day_after_the_sale(room: Room) -> None:
    assert len({key_slot(key.encode()) for key in keys_of(EVENT)}) == 1
    await room.announce(end=100)
    await room.join("ann")
    await room.lines.tick(EVENT)
    await room.enter("ann", 1)
    room.at(1)
    await room.lines.tick(EVENT)
    ends = {key: await room.client.pexpiretime(key) for key in map(str, await room.client.keys("*{*"))}
    assert set(ends) == set(keys_of(EVENT))
    line = ends.pop(room.line_key)
    assert line == -1
    assert set(ends.values()) == {START + 100_000 + 86_400_000}


async def test_a_sale_that_is_prolonged_keeps_its_positions_longer(room: Room) -> None:
    await room.announce(end=100)
    await room.join("ann")
    await room.announce(end=-START / 1000)  # nobody knows when
    assert await room.client.pexpiretime(keys_of(EVENT)[1]) == -1


async def test_the_store_decides_the_time_where_no_test_does(room: Room) -> None:
    room.scripts.now = None
    before = await room.client.time()
    await room.lines.put_line_policy(EVENT, Policy(1, True, 1, 0, 0))
    between = await room.client.time()
    line = await room.lines.get_line(EVENT)
    after = await room.client.time()
    as_of = divmod(line.as_of, 1000)
    assert (between[0], between[1] // 1000) <= as_of <= (after[0], after[1] // 1000)
    assert before[0] <= line.epoch <= between[0]


async def test_a_missed_position_is_not_revived_by_a_later_cohort(room: Room) -> None:
    await room.announce()
    await room.join("ann")
    await room.lines.tick(EVENT)
    room.at(61)
    await room.lines.tick(EVENT)  # ann's cohort is swept
    await room.join("bob")
    room.at(62)
    assert (await room.lines.tick(EVENT)).advanced == 1
    with pytest.raises(AdmissionMissed):
        await room.enter("ann", 1)
    assert await room.enter("bob", 2)


async def test_tick_counts_those_who_leave_finish_or_fall_silent(room: Room) -> None:
    await room.announce()
    accounts = ("ann", "bob", "eve")
    for account in accounts:
        await room.join(account)
    await room.lines.tick(EVENT)
    for position, account in enumerate(accounts, 1):
        await room.enter(account, position)
    await room.leave("ann", 1)
    room.at(0.5)
    await room.lines.tick(EVENT)
    one = float(await room.client.hget(room.line_key, "leaving") or 0)
    await room.lines.report_sales(Sales(EVENT, 1, 0, ("bob",)))
    room.at(1)
    await room.lines.tick(EVENT)
    two = float(await room.client.hget(room.line_key, "leaving") or 0)
    assert one == pytest.approx(1 / 30)
    assert two == pytest.approx(one + (2 - one) / 60)
    room.at(119.5)
    await room.lines.tick(EVENT)
    room.at(120)
    await room.lines.tick(EVENT)  # eve's lease has run out
    assert float(await room.client.hget(room.line_key, "leaving") or 0) == pytest.approx(1 / 30)


async def test_a_cut_of_the_capacity_lets_those_inside_stay(room: Room) -> None:
    await room.announce(capacity=100)
    for number in range(1, 101):
        await room.join(f"a{number}")
    await room.lines.tick(EVENT)
    for number in range(1, 101):
        await room.enter(f"a{number}", number)
    await room.announce(capacity=1)
    await room.join("late")
    room.at(1)
    assert (await room.lines.tick(EVENT)).advanced == 0
    assert [check for check in await room.lines.check_line(EVENT) if check.violations] == []
    room.at(901)
    await room.client.zadd(keys_of(EVENT)[4], {f"a{number}": START + 902_000 for number in range(1, 101)})
    broken = {check.name for check in await room.lines.check_line(EVENT) if check.violations}
    assert broken == {"in_flight_over_capacity", "lease_past_max_stay"}
