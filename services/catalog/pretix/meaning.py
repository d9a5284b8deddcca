"""What the form cannot say: ids and labels that must not repeat, categories that must exist, limits."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from services.catalog.pretix.shapes import Fault, named

MOST_SEATS = 200_000  # what booking takes in one event
MOST_PLACES_NAMED = 10  # of an id that repeats; more help nobody
LONGEST_LABEL = 60  # characters of a section, row or seat number: they are printed on a ticket
STAND_IN_COLOR = "#9E9E9E"


class Names:
    """Labels in use, and new ones for those that repeat: numbered onwards, so that a million repeats stay quick."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.taken: set[str] = set()
        self.last: dict[str, int] = {}

    def next_free(self, label: str) -> str:
        """`label` with a number that nobody has, taken from now on."""
        while True:
            self.last[label] = self.last.get(label, 1) + 1
            name = self.form.format(label, self.last[label])
            if name not in self.taken:
                self.taken.add(name)
                return name


class Place(NamedTuple):
    """A JSON object and where it stands."""

    where: str
    found: dict[str, Any]


def meaning_faults(document: Any) -> Iterator[Fault]:
    """Tolerant of a wrong form, so that a report names all that is wrong at once."""
    zones = list(_children("zones", Place("", document)))
    rows = [list(_children("rows", zone)) for zone in zones]
    seats = [seat for of_zone in rows for row in of_zone for seat in _children("seats", row)]
    yield from _counted(len(seats))
    yield from _repeated_names(zones)
    yield from _repeated_guids(seats)
    for of_zone in rows:
        yield from _repeated_labels(of_zone)
    yield from _categories(document, seats)
    yield from _long_labels(zones, rows, seats)


def _children(name: str, parent: Place) -> Iterator[Place]:
    children = parent.found.get(name) if isinstance(parent.found, dict) else None
    for index, child in enumerate(children if isinstance(children, list) else ()):
        if isinstance(child, dict):
            yield Place(f"{parent.where}.{name}[{index}]".lstrip("."), child)


def _counted(seats: int) -> Iterator[Fault]:
    if not seats:
        yield Fault("zones", "there is no seat")
    if seats > MOST_SEATS:
        yield Fault("zones", f"there are {seats:,} seats; {MOST_SEATS:,} are the most")


def _repeated_names(zones: list[Place]) -> Iterator[Fault]:
    """A section is found by its name."""
    first: dict[str, Place] = {}
    names = Names("{} ({})")
    for zone in zones:
        name = zone.found.get("name")
        if not isinstance(name, str):
            continue
        if name in first:
            yield _renamed(zone, "name", names, first[name].where)
        first.setdefault(name, zone)


def _repeated_guids(seats: list[Place]) -> Iterator[Fault]:
    """One fault for each id that repeats, with all its places."""
    places: dict[str, list[Place]] = {}
    for seat in seats:
        guid = seat.found.get("seat_guid")
        if isinstance(guid, str):
            places.setdefault(guid, []).append(seat)
    names = Names("{}-{}")
    names.taken.update(places)
    for guid, holders in places.items():
        if len(holders) > 1:
            others = [holder.where for holder in holders[1:]]
            more = f" and {len(others) - MOST_PLACES_NAMED:,} more" if len(others) > MOST_PLACES_NAMED else ""
            yield Fault(
                f"{holders[0].where}.seat_guid",
                f"{named(guid)} repeats at {', '.join(others[:MOST_PLACES_NAMED])}{more}",
                f"the first stays, {len(others):,} later ones got numbers",
                partial(_number, guid, holders[1:], names),
            )


def _number(guid: str, holders: list[Place], names: Names) -> None:
    for holder in holders:
        holder.found["seat_guid"] = names.next_free(guid)


def _repeated_labels(rows: list[Place]) -> Iterator[Fault]:
    """Two tickets of one section must not read the same: of each row label, a seat number is there once."""
    numbers: dict[str, dict[str, Place]] = {}
    row_names = Names("{} ({})")
    for row in rows:
        own: dict[str, Place] = {}
        seat_names = Names("{} ({})")
        for seat in _children("seats", row):
            number = seat.found.get("seat_number")
            if isinstance(number, str) and number in own:
                yield _renamed(seat, "seat_number", seat_names, own[number].where)
            elif isinstance(number, str):
                own[number] = seat
        label = row.found.get("row_number")
        if isinstance(label, str):
            before = numbers.setdefault(label, {})
            shared = own.keys() & before.keys()
            if shared:
                other = before[min(shared)].where.rpartition(".")[0]
                yield _renamed(row, "row_number", row_names, other, f", with {len(shared)} equal seat numbers")
            else:
                before.update(own)


def _renamed(place: Place, key: str, names: Names, other: str, more: str = "") -> Fault:
    label = place.found[key]
    name = names.next_free(label)
    return Fault(
        f"{place.where}.{key}",
        f"{named(label)} is the label of {other} too{more}",
        f"{named(label)} became {named(name)}",
        partial(place.found.update, {key: name}),
    )


def _categories(document: Any, seats: list[Place]) -> Iterator[Fault]:
    listed: dict[str, Place] = {}
    categories = document.get("categories") if isinstance(document, dict) else None
    if not isinstance(categories, list):
        return
    for place in _children("categories", Place("", document)):
        name = place.found.get("name")
        if not isinstance(name, str):
            continue
        if name in listed:
            yield Fault(
                place.where,
                f"{named(name)} is {listed[name].where} too",
                "removed",
                partial(categories.remove, place.found),
            )
        listed.setdefault(name, place)
    unknown: dict[str, str] = {}
    for seat in seats:
        name = seat.found.get("category")
        if isinstance(name, str) and name not in listed:
            unknown.setdefault(name, seat.where)
    for name, where in unknown.items():
        yield Fault(
            f"{where}.category",
            f"{named(name)} is not among the categories",
            "added to the categories",
            partial(categories.append, {"name": name, "color": STAND_IN_COLOR}),
        )


def _long_labels(zones: list[Place], rows: list[list[Place]], seats: list[Place]) -> Iterator[Fault]:
    labelled = [(zones, "name"), ([row for of_zone in rows for row in of_zone], "row_number"), (seats, "seat_number")]
    for places, key in labelled:
        for place in places:
            label = place.found.get(key)
            if isinstance(label, str) and len(label) > LONGEST_LABEL:
                yield Fault(
                    f"{place.where}.{key}",
                    f"is longer than {LONGEST_LABEL} characters",
                    "cut",
                    partial(place.found.update, {key: label[:LONGEST_LABEL]}),
                )
