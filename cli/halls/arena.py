"""An arena: a floor of blocks before the stage, and two bowls of curved sections around it, open behind the stage."""

import math

from cli.halls.plan_file import ROW_GAP, SEAT_GAP, PlanFile, Point, SeatCountError, Zone, arc, letters

FEWEST_SEATS, MOST_SEATS = 8_000, 60_000  # fewer would be a floor alone; more would be rows beyond what eyes can do
CATEGORIES = {
    "Floor": "#C2185B",
    "Lower bowl": "#1565C0",
    "Upper bowl": "#00897B",
    "Upper bowl rear": "#7CB342",
    "Wheelchair places": "#F9A825",
}
CENTRE: Point = (0.0, 0.0)
OPENING = math.radians(76)  # behind the stage nobody sits

BLOCKS_ACROSS, BLOCKS_DEEP, BLOCK_ROWS, BLOCK_SEATS = 3, 2, 16, 20
AISLE = 66.0  # plan units: three seats wide

LOWER_SECTIONS, LOWER_RADIUS, LOWER_ROWS = 18, 960.0, 20
UPPER_SECTIONS, UPPER_GAP, GOOD_UPPER_ROWS = 24, 130.0, 12
WHEELCHAIR_ENDS = 1  # places at either end of the last row of each lower section


def make_arena(seats: int) -> PlanFile:
    """As many rows of the upper bowl as the number asks for; the last one is shared evenly by the sections."""
    if not FEWEST_SEATS <= seats <= MOST_SEATS:
        raise SeatCountError(f"An arena has {FEWEST_SEATS:,} to {MOST_SEATS:,} seats.")
    plan = PlanFile("Arena", CATEGORIES, stage=((-330.0, -760.0), (660.0, 210.0)))
    _add_floor(plan)
    lower = [plan.zone(str(101 + index)) for index in range(LOWER_SECTIONS)]
    for number in range(LOWER_ROWS):
        _add_ring(lower, LOWER_RADIUS + number * ROW_GAP, str(number + 1), "Lower bowl")
    for zone in lower:
        zone.change_ends(-1, WHEELCHAIR_ENDS, "Wheelchair places")
    upper = [plan.zone(str(201 + index)) for index in range(UPPER_SECTIONS)]
    radius, number = LOWER_RADIUS + LOWER_ROWS * ROW_GAP + UPPER_GAP, 0
    while plan.seat_count < seats:
        category = "Upper bowl" if number < GOOD_UPPER_ROWS else "Upper bowl rear"
        _add_ring(upper, radius + number * ROW_GAP, str(number + 1), category, seats - plan.seat_count)
        number += 1
    return plan


def _add_floor(plan: PlanFile) -> None:
    width, depth = (BLOCK_SEATS - 1) * SEAT_GAP, (BLOCK_ROWS - 1) * ROW_GAP
    left = -(BLOCKS_ACROSS * width + (BLOCKS_ACROSS - 1) * AISLE) / 2
    for block in range(BLOCKS_ACROSS * BLOCKS_DEEP):
        down, across = divmod(block, BLOCKS_ACROSS)
        x, y = left + across * (width + AISLE), -440.0 + down * (depth + AISLE)
        zone = plan.zone(f"Floor {letters(block)}")
        for row in range(BLOCK_ROWS):
            points = [(x + seat * SEAT_GAP, y + row * ROW_GAP) for seat in range(BLOCK_SEATS)]
            zone.add_row(letters(row), points, "Floor")


def _add_ring(zones: list[Zone], radius: float, label: str, category: str, most: int | None = None) -> None:
    """One row in each section, as long as its arc; together no more than `most`."""
    angle = (2 * math.pi - OPENING) / len(zones)
    full = int((angle * radius - AISLE) / SEAT_GAP)
    total = full * len(zones) if most is None else min(most, full * len(zones))
    share, more = divmod(total, len(zones))
    for index, zone in enumerate(zones):
        middle = OPENING / 2 + (index + 0.5) * angle
        seats = share + (index < more)
        if seats:
            zone.add_row(label, arc(CENTRE, radius, middle, seats), category)
