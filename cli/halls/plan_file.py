"""A seating plan in the making, in pretix's JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SEAT_GAP = 22.0  # plan units from seat to seat; a seat is drawn 18 wide
ROW_GAP = 28.0  # from row to row: knees
MARGIN = 60.0  # around everything
STAGE_COLOR = "#37474F"

Point = tuple[float, float]


class SeatCountError(ValueError):
    """A hall of that kind cannot have so many seats. The message says how many it can."""


@dataclass
class Zone:
    """A section. Its rows are lists of seats: (where, category)."""

    name: str
    rows: list[tuple[str, list[tuple[Point, str]]]] = field(default_factory=list)

    def add_row(self, label: str, points: Sequence[Point], category: str) -> None:
        """Seats from one end to the other, all of one category."""
        self.rows.append((label, [(point, category) for point in points]))

    def change_ends(self, row: int, seats: int, category: str) -> None:
        """The outermost seats of a row at either end get another category."""
        label, placed = self.rows[row]
        last = len(placed) - seats
        changed = [
            (point, category if index < seats or index >= last else own) for index, (point, own) in enumerate(placed)
        ]
        self.rows[row] = (label, changed)


@dataclass
class PlanFile:
    """Zones around a stage. `stage` is its corner and its size."""

    name: str
    categories: dict[str, str]
    stage: tuple[Point, Point]
    zones: list[Zone] = field(default_factory=list)

    @property
    def seat_count(self) -> int:
        return sum(len(seats) for zone in self.zones for _, seats in zone.rows)

    def zone(self, name: str) -> Zone:
        """A new section, after those before it."""
        self.zones.append(Zone(name))
        return self.zones[-1]

    def to_json(self) -> bytes:
        """The file, moved so that everything stands in its upper left corner."""
        points = [point for zone in self.zones for _, seats in zone.rows for point, _ in seats]
        corner, size = self.stage
        points += [corner, (corner[0] + size[0], corner[1] + size[1])]
        left, top = min(x for x, _ in points) - MARGIN, min(y for _, y in points) - MARGIN
        right, bottom = max(x for x, _ in points) + MARGIN, max(y for _, y in points) + MARGIN
        used = {category for zone in self.zones for _, seats in zone.rows for _, category in seats}
        zones = [_zone(zone, (left, top)) for zone in self.zones]
        zones[0]["areas"] = [self._stage(zones[0]["position"], (left, top))]
        document = {
            "name": self.name,
            "categories": [{"name": name, "color": color} for name, color in self.categories.items() if name in used],
            "zones": zones,
            "size": {"width": math.ceil(right - left), "height": math.ceil(bottom - top)},
        }
        return json.dumps(document, separators=(",", ":")).encode()

    def _stage(self, zone: dict[str, float], origin: Point) -> dict[str, Any]:
        corner, size = self.stage
        return {
            "shape": "rectangle",
            "color": STAGE_COLOR,
            "border_color": STAGE_COLOR,
            "rotation": 0,
            "position": _position((corner[0] - origin[0] - zone["x"], corner[1] - origin[1] - zone["y"])),
            "rectangle": {"width": round(size[0]), "height": round(size[1])},
            "text": {"text": "Stage", "color": "#FFFFFF", "position": _position((size[0] / 2, size[1] / 2))},
        }


def arc(centre: Point, radius: float, middle: float, seats: int) -> list[Point]:
    """Seats on a circle, SEAT_GAP apart, around a direction in radians: 0 is up, it turns clockwise."""
    step = SEAT_GAP / radius
    angles = [middle + (index - (seats - 1) / 2) * step for index in range(seats)]
    return [(centre[0] + radius * math.sin(angle), centre[1] - radius * math.cos(angle)) for angle in angles]


def letters(number: int) -> str:
    """Row labels of a theatre: A, B, … Z, AA, AB, …; from 0."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(65 + digit) + text
    return text


def _zone(zone: Zone, origin: Point) -> dict[str, Any]:
    first = zone.rows[0][1][0][0]
    corner = (first[0] - origin[0], first[1] - origin[1])
    rows = [_row(zone.name, label, seats, first) for label, seats in zone.rows]
    return {"name": zone.name, "position": _position(corner), "rows": rows, "areas": []}


def _row(zone: str, label: str, seats: list[tuple[Point, str]], corner: Point) -> dict[str, Any]:
    first = seats[0][0]
    return {
        "row_number": label,
        "row_number_position": "both",
        "position": _position((first[0] - corner[0], first[1] - corner[1])),
        "seats": [
            {
                "seat_guid": f"{zone}-{label}-{number}",
                "seat_number": str(number),
                "category": category,
                "position": _position((point[0] - first[0], point[1] - first[1])),
            }
            for number, (point, category) in enumerate(seats, 1)
        ],
    }


def _position(point: Point) -> dict[str, float]:
    return {"x": round(point[0], 1), "y": round(point[1], 1)}
