"""A theatre: stalls in gentle curves, and a balcony behind them."""

import math

from cli.halls.plan_file import ROW_GAP, PlanFile, Point, SeatCountError, arc, letters

FEWEST_SEATS, MOST_SEATS = 40, 3_000
CATEGORIES = {
    "Front stalls": "#AD1457",
    "Stalls": "#3949AB",
    "Balcony": "#00897B",
    "Wheelchair places": "#F9A825",
    "Companion places": "#6D4C41",
}
FOCUS: Point = (0.0, 0.0)
FIRST_RADIUS = 420.0  # from the middle of the stage: flat enough for a curve that pleases
BALCONY_GAP = 90.0
BALCONY_SHARE = 0.3
SEATS_FOR_EACH_ROW = 1.7  # a row is so many times as long as there are rows
WHEELCHAIR_ENDS = 1  # places at either end of the last row of the stalls, with one beside it for who comes along
BACKWARDS = math.pi


def make_theatre(seats: int) -> PlanFile:
    """Rows grow by about a seat towards the back, and add up to the number."""
    if not FEWEST_SEATS <= seats <= MOST_SEATS:
        raise SeatCountError(f"A theatre has {FEWEST_SEATS:,} to {MOST_SEATS:,} seats.")
    plan = PlanFile("Theatre", CATEGORIES, stage=((-170.0, 190.0), (340.0, 140.0)))
    balcony_seats = round(seats * BALCONY_SHARE)
    stalls, radius = plan.zone("Stalls"), FIRST_RADIUS
    lengths = row_lengths(seats - balcony_seats, round(math.sqrt((seats - balcony_seats) / SEATS_FOR_EACH_ROW)))
    for index, length in enumerate(lengths):
        category = "Front stalls" if index < len(lengths) // 3 else "Stalls"
        stalls.add_row(letters(index), arc(FOCUS, radius, BACKWARDS, length)[::-1], category)
        radius += ROW_GAP
    stalls.change_ends(-1, 2 * WHEELCHAIR_ENDS, "Companion places")
    stalls.change_ends(-1, WHEELCHAIR_ENDS, "Wheelchair places")
    balcony, radius = plan.zone("Balcony"), radius + BALCONY_GAP
    for index, length in enumerate(row_lengths(balcony_seats, max(1, round(balcony_seats / lengths[-1])))):
        balcony.add_row(letters(index), arc(FOCUS, radius, BACKWARDS, length)[::-1], "Balcony")
        radius += ROW_GAP
    return plan


def row_lengths(seats: int, rows: int) -> list[int]:
    """That many rows, each about a seat longer than the one before, with that many seats together."""
    lengths = [seats // rows + index - (rows - 1) // 2 for index in range(rows)]
    missing = seats - sum(lengths)
    for index in range(abs(missing)):
        lengths[-1 - index % rows] += 1 if missing > 0 else -1
    return lengths
