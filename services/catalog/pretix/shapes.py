"""The documented form of the file, and every place where a file departs from it.

After pretix's `seating-plan.schema.json`, in the reading where sizes are whole numbers: older releases refuse others,
so what passes here passes in all of them. https://docs.pretix.eu
"""

import copy
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

LARGEST_NUMBER = 1_000_000  # plan units: a stadium is some thousands wide; a drawing's coordinates are 32 bits
LONGEST_TEXT = 500
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")  # no database and no ticket takes these

# Property → kind. `!`: must be there. `?`: may be null. `[x]`: a list of x.
SHAPES = {
    "plan": {"name": "text!", "categories": "[category]!", "zones": "[zone]!", "size": "size!"},
    "size": {"width": "integer!", "height": "integer!"},
    "category": {"name": "text!", "color": "text"},
    "zone": {
        "name": "text",
        "zone_id": "text",
        "uuid": "text",
        "position": "position!",
        "rows": "[row]!",
        "areas": "[area]",
    },
    "row": {
        "row_number": "text!",
        "row_label": "text?",
        "seat_label": "text?",
        "row_number_position": "side?",
        "uuid": "text",
        "position": "position",
        "seats": "[seat]!",
    },
    "seat": {
        "seat_guid": "text!",
        "seat_number": "text!",
        "category": "text!",
        "position": "position!",
        "radius": "number",
        "start_direction": "text?",
        "uuid": "text",
    },
    "area": {
        "shape": "shape",
        "position": "position",
        "rotation": "number",
        "color": "text",
        "border_color": "text",
        "uuid": "text",
        "rectangle": "rectangle",
        "circle": "circle",
        "ellipse": "ellipse",
        "polygon": "polygon",
        "text": "caption",
    },
    "rectangle": {"width": "integer!", "height": "integer!"},
    "circle": {"radius": "integer!"},
    "ellipse": {"radius": "position!"},
    "polygon": {"points": "[position]!"},
    "caption": {"text": "text!", "position": "position!", "color": "text", "size": "number"},
    "position": {"x": "number!", "y": "number!"},
}
WORDS = {"side": ("start", "end", "both"), "shape": ("polygon", "rectangle", "ellipse", "circle", "text")}
STAND_INS: dict[tuple[str, str], Any] = {
    ("plan", "name"): "Plan",
    ("zone", "position"): {"x": 0, "y": 0},
    ("row", "row_number"): "",
}

Mend = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a file is wrong and how; `repair` says what `mend` would change. Without them it cannot be mended."""

    where: str
    what: str
    repair: str = ""
    mend: Mend | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def shape_faults(document: Any) -> Iterator[Fault]:
    """Every departure from the form, in the order of the file."""
    if isinstance(document, dict):
        yield from _object(document, "plan", "")
    else:
        yield Fault("the file", "is not a JSON object")


def _object(found: dict[str, Any], shape: str, where: str) -> Iterator[Fault]:
    fields = SHAPES[shape]
    for name in found.keys() - fields.keys():
        path = _join(where, name)
        yield Fault(path, f"a {shape} has no such property", "removed", partial(_remove, found, name))
    for name, kind in fields.items():
        path = _join(where, name)
        if name in found:
            yield from _value(found, name, kind.rstrip("!"), path)
        elif kind.endswith("!"):
            yield _missing(found, shape, name, path)


def _missing(found: dict[str, Any], shape: str, name: str, path: str) -> Fault:
    if (shape, name) not in STAND_INS:
        return Fault(path, "is missing")
    stand_in = STAND_INS[shape, name]
    return Fault(path, "is missing", f"set to {stand_in!r}", _setter(found, name, copy.copy(stand_in)))


def _value(holder: Any, key: str | int, kind: str, path: str) -> Iterator[Fault]:
    value = holder[key]
    if kind.endswith("?"):
        if value is not None:
            yield from _value(holder, key, kind[:-1], path)
    elif kind.startswith("["):
        if not isinstance(value, list):
            yield Fault(path, f"is {named(value)}, not a list")
            return
        for index in range(len(value)):
            yield from _value(value, index, kind[1:-1], f"{path}[{index}]")
    elif kind in SHAPES:
        if isinstance(value, dict):
            yield from _object(value, kind, path)
        else:
            yield Fault(path, f"is {named(value)}, not a {kind}")
    else:
        yield from _scalar(holder, key, kind, path)


def _scalar(holder: Any, key: str | int, kind: str, path: str) -> Iterator[Fault]:
    value = holder[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in WORDS:
        if value not in WORDS[kind]:
            yield Fault(path, f"is {named(value)}, not one of {', '.join(WORDS[kind])}", *_without(holder, key))
    elif kind == "text":
        if number:
            yield Fault(path, f"is {named(value)}, not a text", f'is "{value}" now', _setter(holder, key, str(value)))
        elif not isinstance(value, str):
            yield Fault(path, f"is {named(value)}, not a text")
        elif len(value) > LONGEST_TEXT:
            cut = _setter(holder, key, value[:LONGEST_TEXT])
            yield Fault(path, f"is longer than {LONGEST_TEXT} characters", "cut", cut)
        elif UNPRINTABLE.search(value):
            clean = _setter(holder, key, UNPRINTABLE.sub("", value))
            yield Fault(path, "has characters that cannot be printed", "they were removed", clean)
    elif not number:
        yield Fault(path, f"is {named(value)}, not a number")
    elif not abs(value) <= LARGEST_NUMBER:
        yield Fault(path, f"is {value}, beyond ±{LARGEST_NUMBER:,}")
    elif kind == "integer" and value != int(value):
        yield Fault(
            path, f"is {value}, not a whole number", f"rounded to {round(value)}", _setter(holder, key, round(value))
        )


def _without(holder: Any, key: str | int) -> tuple[str, Mend]:
    return "removed", partial(_remove, holder, key)


def _remove(holder: Any, key: str | int) -> None:
    del holder[key]


def _setter(holder: Any, key: str | int, value: Any) -> Mend:
    return partial(operator.setitem, holder, key, value)


def named(value: Any) -> str:
    """A value of the file as a report may show it: short, and printable whatever it was."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    return repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:39]}…"


def _join(where: str, name: str) -> str:
    if not name.isidentifier() or len(name) > 40:
        name = named(name)
    return f"{where}.{name}" if where else name
