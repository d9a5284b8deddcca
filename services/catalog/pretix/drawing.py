"""From a file without faults to the drawing in it: positions added up, rows in order of standing, the focal point."""

import math
import re
from dataclasses import replace
from typing import Any

from services.catalog.rows import Drawing, SeatRow

SEAT_RADIUS = 10  # plan units, unless the file says otherwise: a seat nearer to the edge would be cut off
PALETTE = ("#3F51B5", "#009688", "#E65100", "#AD1457", "#5D4037", "#558B2F", "#6A1B9A", "#00838F")
HEX_COLOR = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}")
STAGE = re.compile(r"\b(stage|bühne|scene|scène|podium|screen|court|pitch|field|ring)\b", re.IGNORECASE)
ACCESSIBLE = re.compile(r"wheelchair|accessible", re.IGNORECASE)
COMPANION = re.compile(r"companion|carer", re.IGNORECASE)

Point = tuple[float, float]


def draw(document: dict[str, Any]) -> Drawing:
    """The format has no mark for accessible seats: those whose category says "wheelchair" or "accessible" are.

    A seat is a companion's, and then not accessible, if its category or its number says "companion" or "carer".
    Categories without a seat are left out, and so are sections without one.
    """
    zones = [(_section(zone, index), zone) for index, zone in enumerate(document["zones"], 1)]
    used = {seat["category"] for _, zone in zones for row in zone["rows"] for seat in row["seats"]}
    categories = [category for category in document["categories"] if category["name"] in used]
    numbers = {category["name"]: number for number, category in enumerate(categories, 1)}
    rows = [_row(section, zone, row, numbers) for section, zone in zones for row in zone["rows"] if row["seats"]]
    size, focal = document["size"], _focal_point(document)
    left = min(0, *(min(row.xs) - SEAT_RADIUS for row in rows))
    top = min(0, *(min(row.ys) - SEAT_RADIUS for row in rows))
    if left or top:
        rows = [_moved(row, -left, -top) for row in rows]
    return Drawing(
        width=max(round(size["width"]) - left, *(max(row.xs) + SEAT_RADIUS for row in rows)),
        height=max(round(size["height"]) - top, *(max(row.ys) + SEAT_RADIUS for row in rows)),
        focal_x=round(focal[0]) - left,
        focal_y=round(focal[1]) - top,
        categories=[category["name"] for category in categories],
        colors=[_color(category, index) for index, category in enumerate(categories)],
        rows=rows,
    )


def _section(zone: dict[str, Any], index: int) -> str:
    return zone.get("name") or zone.get("zone_id") or f"Zone {index}"


def _row(section: str, zone: dict[str, Any], row: dict[str, Any], categories: dict[str, int]) -> SeatRow:
    origin = _add(_point(zone["position"]), _point(row.get("position")))
    placed = [(_add(origin, _point(seat["position"])), seat) for seat in row["seats"]]
    order = in_order_of_standing([point for point, _ in placed])
    placed = [placed[index] for index in order]
    companion = [bool(COMPANION.search(f"{seat['category']} {seat['seat_number']}")) for _, seat in placed]
    return SeatRow(
        section=section,
        row_name=row["row_number"] or row.get("row_label") or "-",
        first_seat_id=0,
        numbers=[seat["seat_number"] for _, seat in placed],
        xs=[round(x) for (x, _), _ in placed],
        ys=[round(y) for (_, y), _ in placed],
        categories=[categories[seat["category"]] for _, seat in placed],
        accessible=[
            bool(ACCESSIBLE.search(seat["category"])) and not beside
            for (_, seat), beside in zip(placed, companion, strict=True)
        ],
        companion=companion,
    )


def in_order_of_standing(points: list[Point]) -> list[int]:
    """Indices of a row's seats from one end to the other, beginning at the end where the file begins.

    Seats are ordered along the line from the first seat to the one farthest from it. Where that is not an end of the
    row, the order starts at the true end nearest to the first seat.
    """
    if len(points) < 3:
        return list(range(len(points)))
    middle = (sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points))
    end = max(points, key=lambda point: math.dist(point, middle))
    other = max(points, key=lambda point: math.dist(point, end))
    if math.dist(points[0], other) < math.dist(points[0], end):
        end, other = other, end
    along = (other[0] - end[0], other[1] - end[1])
    return sorted(range(len(points)), key=lambda index: points[index][0] * along[0] + points[index][1] * along[1])


def _focal_point(document: dict[str, Any]) -> Point:
    """The area that is called a stage; else the largest one, which is a pitch; else the middle of the top."""
    areas = [(zone, area) for zone in document["zones"] for area in zone.get("areas", ())]
    stages = [place for place in areas if STAGE.search(place[1].get("text", {}).get("text", ""))]
    if not areas:
        return document["size"]["width"] / 2, 0.0
    zone, area = max(stages or areas, key=lambda place: _extent(place[1]))
    return _add(_point(zone["position"]), _centre(area))


def _extent(area: dict[str, Any]) -> float:
    box = area.get("rectangle", {})
    radius = area.get("circle", {}).get("radius", 0)
    ellipse = _point(area.get("ellipse", {}).get("radius"))
    points = [_point(point) for point in area.get("polygon", {}).get("points", ())]
    width, height = (max(axis) - min(axis) for axis in zip(*points, strict=True)) if points else (0.0, 0.0)
    sizes = (box.get("width", 0) * box.get("height", 0), 4 * radius * radius, 4 * ellipse[0] * ellipse[1])
    return float(max(*sizes, width * height))


def _centre(area: dict[str, Any]) -> Point:
    """A rectangle is placed by its corner, a polygon by the origin of its points, the round ones by their centre."""
    origin = _point(area.get("position"))
    box = area.get("rectangle") or {"width": 0, "height": 0}
    points = [_point(point) for point in area.get("polygon", {}).get("points", ())]
    if points:
        count = len(points)
        return _add(origin, (sum(x for x, _ in points) / count, sum(y for _, y in points) / count))
    return _add(origin, (box["width"] / 2, box["height"] / 2))


def _color(category: dict[str, Any], index: int) -> str:
    """`#RRGGBB`; the format allows any text, so one of ours stands in for what is not a hex color."""
    color = str(category.get("color", ""))
    if not HEX_COLOR.fullmatch(color):
        return PALETTE[index % len(PALETTE)]
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    return f"#{digits.upper()}"


def _moved(row: SeatRow, x: int, y: int) -> SeatRow:
    return replace(row, xs=[value + x for value in row.xs], ys=[value + y for value in row.ys])


def _point(position: dict[str, Any] | None) -> Point:
    return (position["x"], position["y"]) if position else (0.0, 0.0)


def _add(one: Point, other: Point) -> Point:
    return one[0] + other[0], one[1] + other[1]
