"""Small halls to choose seats in."""

from collections.abc import Iterable

from services.booking.rows import PlacedSeats
from services.booking.seat_plan import Plan, make_plan

PITCH, DEPTH = 20, 30  # plan units between neighbours, and between rows


def hall(*rows: str, focal: tuple[int, int] | None = None, tiers: str = "") -> Plan:
    """A plan drawn in letters, a string for each row: `o` a seat, `a` an accessible one, `c` a companion's, a space an
    aisle as wide as a seat. A row's section may stand in front, `B:ooo`. Seats are numbered from 1, in the plan's
    order; `tiers` has a digit for each, all 1 otherwise."""
    return make_plan(placed(*rows, focal=focal, tiers=tiers))


def placed(*rows: str, focal: tuple[int, int] | None = None, tiers: str = "") -> PlacedSeats:
    """The same, as the store returns it."""
    seats: list[tuple[str, int, int, int, str]] = []
    for index, text in enumerate(rows):
        section, _, drawing = text.rpartition(":")
        seats += [
            (section or "A", index, place * PITCH, index * DEPTH, letter)
            for place, letter in enumerate(drawing)
            if letter != " "
        ]
    sections, row_indexes, x, y, letters = zip(*seats, strict=True)
    seat_tiers = [int(digit) for digit in tiers] or [1] * len(seats)
    return PlacedSeats(
        version=1,
        focal=focal,
        tiers=sorted(set(seat_tiers)),
        seats=range(1, len(seats) + 1),
        seat_tiers=seat_tiers,
        sections=sections,
        row_indexes=row_indexes,
        x=x,
        y=y,
        accessible=[letter == "a" for letter in letters],
        companion=[letter == "c" for letter in letters],
    )


def free_but(plan: Plan, taken: Iterable[int] = ()) -> list[int]:
    """Masks with all seats free but these."""
    masks = [(1 << len(row.seats)) - 1 for row in plan.rows]
    for seat in taken:
        row, bit = plan.places[seat]
        masks[row] &= ~(1 << bit)
    return masks
