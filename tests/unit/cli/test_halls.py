"""Generated halls: any number of seats, and a drawing in which no two seats touch."""

import math

import pytest

from cli.halls import HALLS
from cli.halls.plan_file import SeatCountError, letters
from services.catalog.pretix.reader import read_plan

CLOSEST = 19.0  # plan units between two seats; one is drawn 18 wide
CELL = 40


@pytest.mark.parametrize(
    ("kind", "seats"),
    [
        *(("arena", seats) for seats in (8_000, 12_345, 18_000, 30_001)),
        *(("theatre", seats) for seats in (40, 41, 200, 420, 999, 3_000)),
        *(("hall", seats) for seats in (1, 2, 3, 20, 299, 300, 1_400, 5_003)),
    ],
)
def test_hall_has_as_many_seats_as_asked_and_imports_without_a_fault(kind: str, seats: int) -> None:
    drawing, repairs = read_plan(HALLS[kind][0](seats).to_json(), repair=False)
    assert drawing.seat_count == seats
    assert not repairs
    points = [point for row in drawing.rows for point in zip(row.xs, row.ys, strict=True)]
    assert _closest(points) >= CLOSEST
    assert all(0 < x < drawing.width and 0 < y < drawing.height for x, y in points)
    assert min(math.dist(point, (drawing.focal_x, drawing.focal_y)) for point in points) > 60


@pytest.mark.parametrize(("kind", "seats"), [("arena", 7_999), ("arena", 60_001), ("theatre", 39), ("hall", 50_001)])
def test_hall_of_a_size_that_it_cannot_have_is_refused(kind: str, seats: int) -> None:
    with pytest.raises(SeatCountError):
        HALLS[kind][0](seats)


def test_seats_of_a_row_are_in_order_of_standing() -> None:
    for kind, (make, usual) in HALLS.items():
        for row in read_plan(make(usual).to_json(), repair=False).drawing.rows:
            assert row.numbers == [str(number) for number in range(1, len(row.numbers) + 1)], kind


def test_letters_go_on_after_z() -> None:
    assert [letters(number) for number in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


def _closest(points: list[tuple[int, int]]) -> float:
    """Distance of the two nearest seats, by cells: each seat is compared with those around it only."""
    cells: dict[tuple[int, int], list[tuple[int, int]]] = {}
    closest = math.inf
    for x, y in points:
        for cell in ((x // CELL + dx, y // CELL + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)):
            for other in cells.get(cell, ()):
                closest = min(closest, math.dist((x, y), other))
        cells.setdefault((x // CELL, y // CELL), []).append((x, y))
    return closest
