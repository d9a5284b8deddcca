"""Reads seats.io charts: enough of the form, which is nowhere described, to ask for seats on them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.booking.rows import PlacedSeats

UNITS = 100  # plan units of one of the chart's, whose coordinates have two decimals


@dataclass(frozen=True)
class Chart:
    """`labels` are the chart's own names of the seats, by id."""

    placed: PlacedSeats
    labels: dict[int, str]
    categories: dict[str, int]

    def ids(self, *labels: str) -> set[int]:
        """Seats by their labels."""
        ids = {label: seat for seat, label in self.labels.items()}
        return {ids[label] for label in labels}


def read_chart(path: Path, zone: str = "") -> Chart:
    """A chart, or one zone of it with that zone's focal point. Tables and areas are left out."""
    chart = json.loads(path.read_text())
    outer = chart["subChart"]
    focal = outer.get("focalPoint")
    if zone:
        (focal,) = [known["focalPoint"] for known in chart["zones"]["list"] if known["key"] == zone]
    seats = [seat for section in _sections(outer, zone) for seat in _seats(section)]
    numbers = {str(c["key"]): number for number, c in enumerate(chart["categories"]["list"], 1)}
    placed = PlacedSeats(
        version=1,
        focal=(round(focal["x"] * UNITS), round(focal["y"] * UNITS)) if focal else None,
        tiers=list(numbers.values()),
        seats=list(range(1, len(seats) + 1)),
        seat_tiers=[numbers[seat["category"]] for seat in seats],
        sections=[seat["section"] for seat in seats],
        row_indexes=[seat["row_index"] for seat in seats],
        x=[seat["x"] for seat in seats],
        y=[seat["y"] for seat in seats],
        accessible=[seat["accessible"] for seat in seats],
        companion=[seat["companion"] for seat in seats],
    )
    return Chart(
        placed,
        {number: seat["label"] for number, seat in enumerate(seats, 1)},
        {c["label"].lower(): numbers[str(c["key"])] for c in chart["categories"]["list"]},
    )


def _sections(outer: dict[str, Any], zone: str) -> list[dict[str, Any]]:
    """A chart without sections is one without a name. A section's coordinates count from its corner."""
    if outer["sections"]:
        return [section for section in outer["sections"] if not zone or section.get("zone") == zone]
    return [{"label": "", "topLeft": {"x": 0, "y": 0}, "subChart": outer}]


def _seats(section: dict[str, Any]) -> list[dict[str, Any]]:
    corner = section["topLeft"]
    return [
        {
            "section": section["label"],
            "row_index": index,
            "label": "-".join(filter(None, (section["label"], row["label"], seat["label"]))),
            "category": str(seat["categoryKey"] or section.get("categoryKey")),
            "x": round((corner["x"] + seat["x"]) * UNITS),
            "y": round((corner["y"] + seat["y"]) * UNITS),
            "accessible": bool(seat.get("accessible")),
            "companion": bool(seat.get("companionSeat")),
        }
        for index, row in enumerate(section["subChart"]["rows"])
        for seat in row["seats"]
    ]
