"""Options that several commands have."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
City = Annotated[str, typer.Option(help="City of a new venue.")]
Country = Annotated[str, typer.Option(help="Its country, two letters: PT.")]
TimeZone = Annotated[str, typer.Option(help="Its time zone: Europe/Lisbon.")]
