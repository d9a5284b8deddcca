"""The `rowlock` command."""

import sys

import typer

from cli import events, outbox, venues
from cli.errors import REFUSED, UNREACHABLE, CliError
from cli.invariants import check_all, verdict_on
from cli.options import AsJson
from cli.output import print_error, print_json, print_table
from cli.samples import load_samples

app = typer.Typer(
    help="Sells tickets: what organisers and operators type.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(venues.app, name="venue")
app.add_typer(events.app, name="event")
app.add_typer(outbox.app, name="outbox")


@app.command()
def invariants(as_json: AsJson = False) -> None:
    """Ask every service whether a promise broke. Exit status 1 if one did, 3 if that is not known of all."""
    checked = check_all(quiet=as_json)
    found = [(service, invariant) for service, invariants, _ in checked for invariant in invariants]
    if as_json:
        errors = {service: error.message for service, _, error in checked if error}
        print_json({"invariants": {service: list(kept) for service, kept, _ in checked}, "errors": errors})
    elif found:
        rows = [
            (service, found.name, verdict_on(found), found.description, " ".join([*found.examples, *found.unchecked]))
            for service, found in found
        ]
        print_table(f"{len(rows)} invariants", ("service", "invariant", "violations", "if not kept", "examples"), rows)
    for _, _, error in checked:
        if error and not as_json:
            print_error(error.message)
    if any(invariant.violations > 0 for _, invariant in found):
        raise typer.Exit(REFUSED)
    for _, _, error in checked:
        if error:
            raise typer.Exit(error.status)
    if any(invariant.unchecked for _, invariant in found):
        raise typer.Exit(UNREACHABLE)


@app.command("sample-catalog")
def sample_catalog(as_json: AsJson = False) -> None:
    """Load about twenty events in several cities. Doing it again makes nothing new."""
    loaded = load_samples(quiet=as_json)
    if as_json:
        print_json(loaded)
    else:
        print(f"{len(loaded)} events are for sale; see rowlock event list")


def main() -> None:
    """Runs a command; every end that is no success is a sentence on stderr and a status."""
    try:
        app()
    except CliError as error:
        print_error(error.message, error.details)
        sys.exit(error.status)


if __name__ == "__main__":
    main()
