"""Plan files of any size, in pretix's form."""

import json

ROW = 20


def plan_of(seats: int) -> bytes:
    """One zone of rows of twenty seats."""
    rows = [
        {
            "row_number": str(first // ROW + 1),
            "row_number_position": "both",
            "position": {"x": 0, "y": first},
            "seats": [
                {
                    "seat_guid": f"seat-{seat}",
                    "seat_number": str(seat - first + 1),
                    "position": {"x": (seat - first) * 25, "y": 0},
                    "category": "Floor",
                }
                for seat in range(first, min(first + ROW, seats))
            ],
        }
        for first in range(0, seats, ROW)
    ]
    return json.dumps(
        {
            "name": f"Plan of {seats}",
            "categories": [{"name": "Floor", "color": "#336699"}],
            "zones": [{"name": "Hall", "zone_id": "hall", "position": {"x": 20, "y": 20}, "rows": rows, "areas": []}],
            "size": {"width": 600, "height": 100 + seats},
        }
    ).encode()
