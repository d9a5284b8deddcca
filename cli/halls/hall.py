"""A hall: straight rows with an aisle in the middle, in blocks from front to back. Any number of seats."""

import math

from cli.halls.plan_file import ROW_GAP, SEAT_GAP, PlanFile, SeatCountError, letters

MOST_SEATS = 50_000
CATEGORIES = {"Front": "#C2185B", "Middle": "#3949AB", "Rear": "#00897B"}
SEATS_FOR_EACH_ROW = 1.6  # a row is so many times as long as there are rows
BLOCK_ROWS = 12  # a section that fits on a phone's screen
AISLE = 44.0
BLOCK_GAP = 40.0


def make_hall(seats: int) -> PlanFile:
    """The last row may be shorter."""
    if not 1 <= seats <= MOST_SEATS:
        raise SeatCountError(f"A hall has 1 to {MOST_SEATS:,} seats.")
    length = math.ceil(math.sqrt(seats * SEATS_FOR_EACH_ROW))
    rows = math.ceil(seats / length)
    half = length * SEAT_GAP / 2
    plan = PlanFile("Hall", CATEGORIES, stage=((-half / 2, -190.0), (half + AISLE, 110.0)))
    for row in range(rows):
        block, within = divmod(row, BLOCK_ROWS)
        zone = plan.zones[-1] if within else plan.zone(f"Block {block + 1}" if rows > BLOCK_ROWS else "Hall")
        count = min(length, seats - row * length)
        indent = (length - count) // 2
        y = row * ROW_GAP + block * BLOCK_GAP
        points = [(_across(indent + seat, length) - half, y) for seat in range(count)]
        zone.add_row(letters(within) if rows <= BLOCK_ROWS else str(row + 1), points, _category(row, rows))
    return plan


def _across(seat: int, length: int) -> float:
    return seat * SEAT_GAP + (AISLE if seat >= length / 2 else 0.0)


def _category(row: int, rows: int) -> str:
    return list(CATEGORIES)[3 * row // rows]
