"""`rowlock venue …`"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rowlock.catalog.v1 import catalog_pb2 as pb2
from rowlock.catalog.v1.catalog_pb2_grpc import CatalogAdminServiceStub

from cli.errors import REFUSED, CliError
from cli.halls import HALLS
from cli.halls.plan_file import SeatCountError
from cli.options import AsJson, City, Country, TimeZone
from cli.output import print_json, print_table, working
from cli.services import Service

ANYWHERE = {"city": "Anywhere", "country_code": "ZZ", "time_zone": "UTC"}
"""Where a venue stands of which only the plan is known."""

app = typer.Typer(help="Places with seats, and the versions of their seat plans.", no_args_is_help=True)


class Venues:
    """Catalog's venues."""

    def __init__(self) -> None:
        self.service = Service("catalog")
        self.stub = CatalogAdminServiceStub(self.service.channel)

    def list(self) -> list[pb2.VenueSummary]:
        """By name."""
        return list(self.service.ask(self.stub.ListVenues, pb2.ListVenuesRequest()).venues)

    def find(self, name: str) -> pb2.VenueSummary:
        """By name or id."""
        for summary in self.list():
            if name in (summary.venue.venue_id, summary.venue.name):
                return summary
        raise CliError(f'There is no venue "{name}"; see rowlock venue list.', REFUSED)

    def store(self, plan: bytes, venue: pb2.Venue, *, repair: bool = False) -> pb2.ImportVenueResponse:
        """A new venue needs all of its fields; what is empty of a known one stays as it is."""
        complete = venue.city and venue.country_code and venue.time_zone
        if not complete and all(known.venue.name.casefold() != venue.name.casefold() for known in self.list()):
            venue = _anywhere(venue)
        request = pb2.ImportVenueRequest(venue=venue, pretix_plan=plan, repair=repair)
        stored: pb2.ImportVenueResponse = self.service.ask(self.stub.ImportVenue, request)
        return stored


@app.command("import")
def import_plan(
    file: Annotated[Path, typer.Argument(help="A seating plan in pretix's JSON.")],
    name: Annotated[str, typer.Option(help="Name of the venue; the file's name if not given.")] = "",
    city: City = "",
    country: Country = "",
    time_zone: TimeZone = "",
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended; say what was changed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a venue, or a new version of its plan if a venue of that name exists."""
    try:
        plan = file.read_bytes()
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}.") from None
    name = name or file.stem.replace("-", " ").replace("_", " ").capitalize()
    venue = pb2.Venue(name=name, city=city, country_code=country, time_zone=time_zone)
    with working(f"importing {file.name}", quiet=as_json):
        stored = Venues().store(plan, venue, repair=repair)
    _print_stored(name, stored, as_json)


@app.command("list")
def list_venues(as_json: AsJson = False) -> None:
    """Venues by name, with the newest version of their plan."""
    venues = Venues().list()
    if as_json:
        print_json(venues)
        return
    rows = [_row(summary) for summary in venues]
    print_table(f"{len(rows)} venues", ("id", "name", "city", "time zone", "version", "seats", "categories"), rows)


@app.command()
def generate(
    kind: Annotated[str, typer.Argument(help="arena, theatre or hall.")],
    seats: Annotated[int, typer.Option(help="How many; 18,000, 200 and 300 unless told.")] = 0,
    output: Annotated[Path | None, typer.Option(help="File for the plan, instead of adding a venue.")] = None,
    name: Annotated[str, typer.Option(help="Name of the venue; the kind if not given.")] = "",
    city: City = "",
    country: Country = "",
    time_zone: TimeZone = "",
    as_json: AsJson = False,
) -> None:
    """Make a hall that nobody built: add it as a venue, or write its plan to a file."""
    if kind not in HALLS:
        raise CliError(f'There is no hall of kind "{kind}"; there are {", ".join(HALLS)}.')
    plan = make_plan(kind, seats)
    if output:
        try:
            output.write_bytes(plan)
        except OSError as error:
            raise CliError(f"{output} cannot be written: {error.strerror}.") from None
        print_json({"file": str(output)}) if as_json else print(f"{output}: {len(plan):,} bytes")
        return
    name = name or kind.capitalize()
    venue = pb2.Venue(name=name, city=city, country_code=country, time_zone=time_zone)
    with working(f"adding {name}", quiet=as_json):
        stored = Venues().store(plan, venue)
    _print_stored(name, stored, as_json)


def make_plan(kind: str, seats: int) -> bytes:
    """A plan file of a kind in HALLS; 0 seats is as many as it usually has."""
    make, usual = HALLS[kind]
    try:
        return make(seats or usual).to_json()
    except SeatCountError as error:
        raise CliError(str(error)) from None


def _anywhere(venue: pb2.Venue) -> pb2.Venue:
    completed = pb2.Venue(**ANYWHERE, name=venue.name)
    completed.MergeFrom(venue)
    return completed


def _row(summary: pb2.VenueSummary) -> tuple[Any, ...]:
    venue = summary.venue
    place = (venue.venue_id, venue.name, f"{venue.city}, {venue.country_code}", venue.time_zone)
    return (*place, summary.version, f"{summary.seat_count:,}", ", ".join(summary.categories))


def _print_stored(name: str, stored: pb2.ImportVenueResponse, as_json: bool) -> None:
    if as_json:
        print_json(stored)
        return
    for repair in stored.repairs:
        print(f"  repaired {repair}")
    print(f"{name} is {stored.venue_id}, version {stored.version} of its plan: {stored.seat_count:,} seats")
    print(f"  categories: {', '.join(stored.categories)}")
