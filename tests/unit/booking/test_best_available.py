"""Which seats are the best, rung by rung; and what a commercial system answers on its own charts."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.booking.best_available import blocks, candidates, largest
from services.booking.rows import Ask
from services.booking.seat_plan import Plan, make_plan
from tests.support.seatsio import read_chart
from tests.support.steps import at_once
from tests.unit.booking.halls import free_but, hall

CASES = 8  # of the commercial system's answers
MIDDLE = (50, -100)  # above the middle of a row of six


def best(plan: Plan, ask: Ask, *taken: int) -> list[list[int]]:
    """Seats of the best party, a list for each group; none: []."""
    found = at_once(candidates(plan, free_but(plan, taken), ask))
    return [sorted(block.seats(plan)) for block in found[0]] if found else []


def test_a_party_sits_in_the_middle_of_the_first_row() -> None:
    plan = hall("oooooo", "oooooo", focal=MIDDLE)
    assert best(plan, Ask(2)) == [[3, 4]]
    assert best(plan, Ask(6)) == [[1, 2, 3, 4, 5, 6]]


def test_without_a_focal_point_the_plans_order_decides() -> None:
    plan = hall("oooooo", "oooooo")
    assert best(plan, Ask(2)) == [[1, 2]]
    assert best(plan, Ask(2), 1, 6) == [[2, 3]]
    assert best(plan, Ask(2), 1) == [[2, 3]]  # 4 and 5 are two
    assert best(plan, Ask(4), 1) == [[7, 8, 9, 10]]  # four of the five in front would leave one
    assert best(plan, Ask(2), *range(1, 7)) == [[7, 8]]


def test_no_seat_is_left_single_while_another_row_has_room() -> None:
    plan = hall("ooo", "oooo", focal=(20, -100))
    assert best(plan, Ask(2)) == [[4, 5]]  # in the first row one of three would be left
    assert best(plan, Ask(2), 4, 5, 6, 7) == [[1, 2]]


def test_neighbours_are_positions_and_not_numbers_and_not_across_an_aisle() -> None:
    plan = hall("oooo oooo", "oooooooo", focal=(80, -1000))
    assert best(plan, Ask(6)) == [[11, 12, 13, 14, 15, 16]]
    assert best(plan, Ask(4)) == [[1, 2, 3, 4]]
    assert best(plan, Ask(2), 3, *range(9, 17)) == [[5, 6]]  # 4 is single already, the aisle beside it is no neighbour


def test_rows_of_one_section_that_share_a_name_are_two_rows() -> None:
    plan = hall("oo", "oo")
    assert [row.seats for row in plan.rows] == [(1, 2), (3, 4)]


def test_accessible_seats_are_given_out_when_asked_for_and_exactly_as_many() -> None:
    plan = hall("ooaaoo", "oooooo", focal=MIDDLE)
    assert best(plan, Ask(2)) == [[1, 2]]
    assert best(plan, Ask(3)) == [[7, 8, 9]]  # two and two, or one, beside any other three
    assert best(plan, Ask(2, accessible=2)) == [[3, 4]]
    assert best(plan, Ask(3, accessible=1)) == [[1, 2, 3]]
    assert best(plan, Ask(1, accessible=1)) == [[3]]
    assert best(plan, Ask(1), *range(5, 13)) == [[1]]
    assert best(plan, Ask(1), 1, 2, *range(5, 13)) == []


def test_companions_sit_beside_an_accessible_seat_and_nowhere_else() -> None:
    plan = hall("ccaoo")
    assert best(plan, Ask(2)) == [[4, 5]]
    assert best(plan, Ask(3)) == []
    assert best(plan, Ask(2, accessible=1), 4, 5) == [[2, 3]]
    assert best(plan, Ask(3, accessible=1), 4, 5) == []  # the first companion's seat is beside the second one's


def test_section_and_tier_are_kept_to() -> None:
    plan = hall("A:oooo", "B:oooo", "B:oooo", tiers="111122221111")
    assert best(plan, Ask(2, section="B")) == [[5, 6]]
    assert best(plan, Ask(2, section="B", tier=1)) == [[9, 10]]
    assert best(plan, Ask(5, tier=2)) == []
    assert best(plan, Ask(2, tier=3)) == []


def test_a_party_too_large_for_a_row_is_split_into_the_fewest_groups() -> None:
    plan = hall("ooo", "oooo", "oooo", "oooo", focal=(30, -100))
    assert [len(group) for group in best(plan, Ask(8))] == [4, 4]
    assert [len(group) for group in best(plan, Ask(7))] == [3, 4]
    assert sorted(map(len, best(plan, Ask(5)))) == [2, 3]  # 4 and 1 would leave somebody alone
    assert len(best(plan, Ask(15))) == 4
    assert best(plan, Ask(16)) == []


def test_somebody_sits_alone_only_if_it_cannot_be_helped() -> None:
    plan = hall("oo", "oo", "o")
    assert sorted(map(len, best(plan, Ask(4)))) == [2, 2]
    assert sorted(map(len, best(plan, Ask(3)))) == [1, 2]


def test_the_groups_of_a_split_party_are_near_each_other() -> None:
    plan = hall("oo", "oo", "oo", "oo", "oo", "oo", focal=(10, 200))
    groups = best(plan, Ask(4))
    rows = sorted(plan.places[group[0]][0] for group in groups)
    assert rows[1] - rows[0] == 1


def test_accessible_seats_that_are_apart_are_split_as_well() -> None:
    plan = hall("oaoo", "oooo", "ooao")
    party = best(plan, Ask(5, accessible=2))
    seats = [seat for group in party for seat in group]
    assert len(set(seats)) == 5
    assert {2, 11} <= set(seats)
    assert best(plan, Ask(5, accessible=3)) == []
    assert sorted(map(len, best(plan, Ask(6, accessible=1)))) == [2, 4]


def test_the_largest_party_is_what_there_are_seats_for() -> None:
    plan = hall("ooa", "ooc")
    everything = free_but(plan)
    assert at_once(largest(plan, everything, Ask(5))) == 4
    assert at_once(largest(plan, everything, Ask(6, accessible=2))) == 5
    assert at_once(largest(plan, free_but(plan, [3]), Ask(2, accessible=1))) == 0
    assert at_once(largest(plan, free_but(plan, [1, 2, 4, 5]), Ask(2))) == 0


def test_several_candidates_share_no_seat_and_would_leave_none_single() -> None:
    plan = hall("oooooooooo", "oooooooooo", focal=(90, -100))
    found = at_once(candidates(plan, free_but(plan), Ask(2), most=8))
    seats = [seat for (block,) in found for seat in block.seats(plan)]
    assert len(seats) == len(set(seats)) == 16
    assert [block.key for (block,) in found] == sorted(block.key for (block,) in found)


@pytest.mark.parametrize("number", range(CASES))
def test_best_available_agrees_with_a_commercial_system(shared_data: Path, number: int) -> None:
    charts = shared_data / "seatsio"
    cases = json.loads((charts / "best-available.json").read_text())["cases"]
    assert len(cases) == CASES
    case: dict[str, Any] = cases[number]
    chart = read_chart(charts / case["chart"], case.get("zone", ""))
    plan = make_plan(chart.placed)
    free = free_but(plan, chart.ids(*case.get("booked", ())))
    ask = Ask(
        case["number"],
        section=case.get("sections", [""])[0],
        tier=chart.categories[case["categories"][0]] if "categories" in case else None,
        accessible=case.get("accessibleSeats", 0),
    )
    if case.get("tryToPreventOrphanSeats", True):
        found = at_once(candidates(plan, free, ask))
    else:  # without the first rung
        found = [(block,) for block in at_once(blocks(plan, free, ask, most=1, stranding=True))]
    if "expect_error" in case:
        assert found == []
        assert 0 < at_once(largest(plan, free, ask)) < ask.quantity
    else:
        assert [chart.labels[seat] for block in found[0] for seat in block.seats(plan)] == case["expect"]
