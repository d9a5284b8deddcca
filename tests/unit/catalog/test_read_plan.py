"""Plan files: what is refused, what is mended, what is drawn."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from services.catalog.errors import MOST_FAULTS_TOLD, PlanInvalid
from services.catalog.pretix.drawing import in_order_of_standing
from services.catalog.pretix.reader import LARGEST_PLAN_BYTES, read_plan
from services.catalog.venues import digest_of

Change = Callable[[dict[str, Any]], Any]


def plan(*changes: Change, rows: int = 2, seats: int = 3) -> bytes:
    """A plan without faults, and then what a test does to it."""
    document: dict[str, Any] = {
        "name": "Plan",
        "size": {"width": 400, "height": 300},
        "categories": [{"name": "Gold", "color": "#FFD700"}],
        "zones": [
            {
                "name": "Main",
                "zone_id": "main",
                "position": {"x": 50, "y": 50},
                "rows": [row(chr(65 + index), seats, y=30 * index) for index in range(rows)],
            }
        ],
    }
    for change in changes:
        change(document)
    return json.dumps(document).encode()


def row(label: str, seats: int, y: float = 0) -> dict[str, Any]:
    return {
        "row_number": label,
        "row_number_position": None,
        "position": {"x": 0, "y": y},
        "seats": [seat(f"{label}-{number}", str(number), x=20 * number) for number in range(1, seats + 1)],
    }


def seat(guid: str, number: str, x: float) -> dict[str, Any]:
    return {"seat_guid": guid, "seat_number": number, "category": "Gold", "position": {"x": x, "y": 0}}


def first_seat(document: dict[str, Any]) -> Any:
    return document["zones"][0]["rows"][0]["seats"][0]


def first_row(document: dict[str, Any]) -> Any:
    return document["zones"][0]["rows"][0]


def faults_of(data: bytes, *, repair: bool = False) -> list[str]:
    with pytest.raises(PlanInvalid) as refused:
        read_plan(data, repair=repair)
    return refused.value.metadata["faults"].split("\n")


def test_plan_without_faults_is_read_as_it_is() -> None:
    drawing, repairs = read_plan(plan(), repair=False)
    assert not repairs
    assert (drawing.width, drawing.height, drawing.focal_x, drawing.focal_y) == (400, 300, 200, 0)
    assert [(row.section, row.row_name, row.numbers, row.xs, row.ys) for row in drawing.rows] == [
        ("Main", "A", ["1", "2", "3"], [70, 90, 110], [50, 50, 50]),
        ("Main", "B", ["1", "2", "3"], [70, 90, 110], [80, 80, 80]),
    ]


def test_every_fault_is_told_with_its_place() -> None:
    faults = faults_of(
        plan(
            lambda document: document["size"].update(width=400.5),
            lambda document: first_seat(document).pop("position"),
            lambda document: first_seat(document).update(seat_number=7, price="free"),
            lambda document: first_row(document).update(row_number_position="left"),
            lambda document: document["zones"].append({"name": "Main", "position": {"x": 0}, "rows": []}),
        )
    )
    assert sorted(faults) == [
        "size.width: is 400.5, not a whole number",
        "zones[0].rows[0].row_number_position: is 'left', not one of start, end, both",
        "zones[0].rows[0].seats[0].position: is missing",
        "zones[0].rows[0].seats[0].price: a seat has no such property",
        "zones[0].rows[0].seats[0].seat_number: is 7, not a text",
        "zones[1].name: 'Main' is the label of zones[0] too",
        "zones[1].position.y: is missing",
    ]


MENDED: list[tuple[Change, str]] = [
    (lambda document: document["size"].update(width=400.5), "size.width: is 400.5, not a whole number: rounded to 400"),
    (lambda document: document.pop("name"), "name: is missing: set to 'Plan'"),
    (lambda document: document.update(extra=1), "extra: a plan has no such property: removed"),
    (
        lambda document: first_seat(document).update(seat_number=7),
        'zones[0].rows[0].seats[0].seat_number: is 7, not a text: is "7" now',
    ),
    (
        lambda document: first_seat(document).update(category="Silver"),
        "zones[0].rows[0].seats[0].category: 'Silver' is not among the categories: added to the categories",
    ),
    (
        lambda document: document["categories"].append({"name": "Gold"}),
        "categories[1]: 'Gold' is categories[0] too: removed",
    ),
    (
        lambda document: document["zones"][0]["rows"][1].update(row_number="A"),
        "zones[0].rows[1].row_number: 'A' is the label of zones[0].rows[0] too, with 3 equal seat numbers: "
        "'A' became 'A (2)'",
    ),
    (
        lambda document: first_seat(document).update(seat_number="2"),
        "zones[0].rows[0].seats[1].seat_number: '2' is the label of zones[0].rows[0].seats[0] too: '2' became '2 (2)'",
    ),
    (
        lambda document: first_seat(document).update(seat_guid="B-1"),
        "zones[0].rows[0].seats[0].seat_guid: 'B-1' repeats at zones[0].rows[1].seats[0]: "
        "the first stays, 1 later ones got numbers",
    ),
    (
        lambda document: first_row(document).update(row_number="A\x00"),
        "zones[0].rows[0].row_number: has characters that cannot be printed: they were removed",
    ),
]


@pytest.mark.parametrize(("change", "told"), MENDED)
def test_repair_says_what_it_changed_and_loses_no_seat(change: Change, told: str) -> None:
    damaged = plan(change)
    assert len(faults_of(damaged)) == 1
    drawing, repairs = read_plan(damaged, repair=True)
    assert repairs == [told]
    assert drawing.seat_count == 6
    labels = [(row.section, row.row_name, number) for row in drawing.rows for number in row.numbers]
    assert len(set(labels)) == 6


def test_repair_goes_on_while_a_mending_brings_new_faults_to_light() -> None:
    damaged = plan(
        lambda document: first_row(document)["seats"][0].update(seat_number=1),
        lambda document: first_row(document)["seats"][1].update(seat_number="1"),
    )
    drawing, repairs = read_plan(damaged, repair=True)
    assert len(repairs) == 2
    assert drawing.rows[0].numbers == ["1", "1 (2)", "3"]


HOPELESS: list[tuple[Change, str]] = [
    (lambda document: first_seat(document).pop("position"), "zones[0].rows[0].seats[0].position: is missing"),
    (
        lambda document: first_seat(document).update(position=5),
        "zones[0].rows[0].seats[0].position: is 5, not a position",
    ),
    (lambda document: document.update(zones=[]), "zones: there is no seat"),
    (lambda document: document["size"].update(width=10**9), "size.width: is 1000000000, beyond ±1,000,000"),
    (
        lambda document: first_seat(document).update(category=None),
        "zones[0].rows[0].seats[0].category: is null, not a text",
    ),
]


@pytest.mark.parametrize(("change", "told"), HOPELESS)
def test_repair_refuses_what_it_would_have_to_guess(change: Change, told: str) -> None:
    assert faults_of(plan(change), repair=True) == [told]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[1, 2]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"zones": Infinity}',
        b"9" * 5_000,
    ],
)
@pytest.mark.parametrize("repair", [False, True])
def test_what_is_no_plan_at_all_is_refused(data: bytes, repair: bool) -> None:
    assert faults_of(data, repair=repair)[0].startswith("the file: ")


def test_plan_of_too_many_bytes_is_refused_unread() -> None:
    assert faults_of(b" " * (LARGEST_PLAN_BYTES + 1)) == ["the file: is too large"]


def test_plan_of_too_many_seats_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.catalog.pretix.meaning.MOST_SEATS", 5)
    assert faults_of(plan(), repair=True) == ["zones: there are 6 seats; 5 are the most"]


def test_report_of_faults_is_bounded() -> None:
    faults = faults_of(plan(lambda document: document.update({f"x{number}": 1 for number in range(3_000)})))
    assert len(faults) == MOST_FAULTS_TOLD + 1
    assert faults[-1] == "… and 2,000 more"


def test_ids_that_repeat_very_often_are_mended_quickly() -> None:
    damaged = plan(lambda document: [seat.update(seat_guid="x") for seat in first_row(document)["seats"]], seats=5_000)
    drawing, repairs = read_plan(damaged, repair=True)
    assert (drawing.seat_count, len(repairs)) == (10_000, 1)


def test_names_that_cannot_be_printed_do_not_break_the_report() -> None:
    for fault in faults_of(plan(lambda document: first_seat(document).update({"\ud800": 1, "seat_guid": "\udfff"}))):
        assert fault.encode()


def test_seats_outside_the_drawing_move_it() -> None:
    moved = read_plan(plan(lambda document: document["zones"][0].update(position={"x": -100, "y": 280})), repair=False)
    drawing = moved.drawing
    assert min(min(row.xs) for row in drawing.rows) == 10
    assert drawing.height == 320
    assert drawing.focal_x == 290


def test_a_stage_is_the_focal_point() -> None:
    caption = {"text": "Main Stage", "position": {"x": 0, "y": 0}}
    round_stage = {"shape": "circle", "position": {"x": 10, "y": 20}, "circle": {"radius": 5}, "text": caption}
    large_bar = {"shape": "rectangle", "position": {"x": 0, "y": 0}, "rectangle": {"width": 300, "height": 90}}
    areas = [large_bar, round_stage]
    drawing = read_plan(plan(lambda document: document["zones"][0].update(areas=areas)), repair=False).drawing
    assert (drawing.focal_x, drawing.focal_y) == (60, 70)


def test_neighbours_are_neighbours_in_the_house() -> None:
    odd_and_even = plan(
        lambda document: first_row(document).update(
            seats=[seat(f"s{number}", str(number), x) for number, x in ((1, 40), (2, 60), (3, 20), (4, 80), (5, 0))]
        )
    )
    numbers = read_plan(odd_and_even, repair=False).drawing.rows[0].numbers
    assert numbers in (["5", "3", "1", "2", "4"], ["4", "2", "1", "3", "5"])


def test_order_of_standing_begins_where_the_file_begins() -> None:
    curve = [(0.0, 0.0), (20.0, 5.0), (40.0, 7.0), (60.0, 5.0), (80.0, 0.0)]
    assert in_order_of_standing(curve) == [0, 1, 2, 3, 4]
    assert in_order_of_standing(curve[::-1]) == [0, 1, 2, 3, 4]


def test_wheelchair_places_are_accessible() -> None:
    marked = plan(
        lambda document: document["categories"].append({"name": "Wheelchair places", "color": "orange"}),
        lambda document: first_seat(document).update(category="Wheelchair places"),
    )
    drawing = read_plan(marked, repair=False).drawing
    assert drawing.rows[0].accessible == [True, False, False]
    assert drawing.colors[1].startswith("#")


@pytest.mark.parametrize(
    ("category", "number", "accessible", "companion"),
    [
        ("Wheelchair companion", "1", False, True),
        ("Carer", "1", False, True),
        ("Gold", "1 Companion", False, True),
        ("Wheelchair", "1 (carer)", False, True),
        ("Accessible", "1", True, False),
        ("Gold", "1", False, False),
    ],
)
def test_companion_places_are_named_so(category: str, number: str, accessible: bool, companion: bool) -> None:
    marked = plan(
        lambda document: document["categories"].append({"name": category}) if category != "Gold" else None,
        lambda document: first_seat(document).update(category=category, seat_number=number),
    )
    row = read_plan(marked, repair=False).drawing.rows[0]
    assert (row.accessible, row.companion) == ([accessible, False, False], [companion, False, False])


def test_digest_is_of_the_drawing_not_of_the_file() -> None:
    one = read_plan(plan(), repair=False).drawing
    same = read_plan(plan(lambda document: document.update(name="Other")), repair=False).drawing
    other = read_plan(plan(seats=4), repair=False).drawing
    assert digest_of(one) == digest_of(same) != digest_of(other)
