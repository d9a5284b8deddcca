"""`rowlock outbox …`: what waits to be delivered, and what waits for a person."""

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import typer
from rowlock.booking.v1.booking_pb2 import RepublishOrdersRequest
from rowlock.booking.v1.booking_pb2_grpc import BookingAdminServiceStub
from rowlock.outbox.v1.outbox_pb2 import DropMessageRequest, ListOutboxRequest, OutboxMessage, RetryMessageRequest
from rowlock.outbox.v1.outbox_pb2_grpc import OutboxAdminServiceStub

from chassis.ids import parse_id
from cli.errors import WRONG_USE, CliError
from cli.options import AsJson
from cli.output import print_error, print_json, print_table, working
from cli.services import Service
from cli.times import parse_time, timestamp

PAGE_SIZE = 1000
MOST_LISTED = 10_000  # more than that is a sink that is away, not a list to read
ZONE = "UTC"  # messages have no venue
UNITS = {"m": "minutes", "h": "hours", "d": "days"}

WITH_OUTBOX = ("booking", "payments")

MessageId = Annotated[str, typer.Argument(help="msg_…, as listed.")]

app = typer.Typer(help="Messages between services: not delivered yet, or refused too often.", no_args_is_help=True)


class Listed(NamedTuple):
    """What one service said; `error` if it said nothing, or not all."""

    service: str
    messages: list[OutboxMessage]
    error: CliError | None


class Outbox:
    """One service's outbox: of all its databases."""

    def __init__(self, name: str) -> None:
        self.service = Service(name)
        self.admin = OutboxAdminServiceStub(self.service.channel)

    def list(self, *, parked: bool) -> list[OutboxMessage]:
        """All pages, MOST_LISTED messages at most."""
        found: list[OutboxMessage] = []
        query = ListOutboxRequest(parked=parked, page_size=PAGE_SIZE)
        while True:
            page = self.service.ask(self.admin.ListOutbox, query)
            found.extend(page.messages)
            query.page_token = page.next_page_token
            if not page.next_page_token or len(found) >= MOST_LISTED:
                return found

    def retry(self, message_id: str) -> None:
        """Gives a parked message all its tries again."""
        self.service.ask(self.admin.RetryMessage, RetryMessageRequest(message_id=message_id))

    def drop(self, message_id: str) -> None:
        """Gives a parked message up."""
        self.service.ask(self.admin.DropMessage, DropMessageRequest(message_id=message_id))


@app.command("list")
def list_outbox(
    parked: Annotated[bool, typer.Option("--parked", help="Only those that were refused too often.")] = False,
    as_json: AsJson = False,
) -> None:
    """What waits in the outboxes of booking and payments, oldest first. Exit status 3 if one did not answer."""
    listed = [_list(name, parked=parked, quiet=as_json) for name in WITH_OUTBOX]
    if as_json:
        errors = {service: error.message for service, _, error in listed if error}
        print_json({"messages": {service: messages for service, messages, _ in listed}, "errors": errors})
    else:
        _print_messages(listed, parked=parked)
    for _, _, error in listed:
        if error and not as_json:
            print_error(error.message)
    for _, _, error in listed:
        if error:
            raise typer.Exit(error.status)


@app.command()
def retry(message_id: MessageId, as_json: AsJson = False) -> None:
    """Let a parked message be tried again, with all its tries."""
    _outbox_of(message_id).retry(message_id)
    _print_done(message_id, "will be tried again", as_json=as_json)


@app.command()
def drop(
    message_id: MessageId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a parked message up for good; later ones of its order go on."""
    outbox = _outbox_of(message_id)
    if not yes:
        _ask(f"{message_id} will never be delivered. Drop it?")
    outbox.drop(message_id)
    _print_done(message_id, "is dropped", as_json=as_json)


@app.command()
def republish(
    since: Annotated[str, typer.Option(help='From when on: "6h", "2d", "2027-03-31 20:00" (UTC); seven days at most.')],
    as_json: AsJson = False,
) -> None:
    """Send what became of orders to the stream booking.orders again."""
    start = parse_since(since)
    with working("publishing again", quiet=as_json):
        booking = Service("booking")
        admin = BookingAdminServiceStub(booking.channel)
        answer = booking.ask(admin.RepublishOrders, RepublishOrdersRequest(start_time=timestamp(start)))
    if as_json:
        print_json(answer)
    else:
        print(f"{answer.message_count:,} messages go out again")


def parse_since(text: str) -> datetime:
    """`30m`, `6h` or `2d` ago, or a time."""
    span = re.fullmatch(r"(\d{1,4})([mhd])", text.strip())
    if span:
        return datetime.now(UTC) - timedelta(**{UNITS[span[2]]: int(span[1])})
    return parse_time(text, ZONE)


def age(span: timedelta) -> str:
    """In the largest unit that it has one of: `40 s`, `5 m`, `3 h`, `2 d`."""
    seconds = max(int(span.total_seconds()), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _list(name: str, *, parked: bool, quiet: bool) -> Listed:
    with working(f"asking {name}", quiet=quiet):
        try:
            return Listed(name, Outbox(name).list(parked=parked), None)
        except CliError as error:
            return Listed(name, [], error)


def _print_messages(listed: list[Listed], *, parked: bool) -> None:
    found = [message for _, messages, _ in listed for message in messages]
    if not found:
        if any(error is None for _, _, error in listed):
            print("no message is parked" if parked else "no message waits")
        return
    now = datetime.now(UTC)
    rows = [
        (
            message.message_id,
            message.sink,
            message.kind,
            message.aggregate_id,
            "parked" if message.HasField("park_time") else age(now - message.create_time.ToDatetime(tzinfo=UTC)),
        )
        for message in found
    ]
    print_table(f"{len(rows):,} messages", ("id", "to", "kind", "order", "waits"), rows)
    for message in found:
        if message.last_refusal:
            print(f"{message.message_id}: {message.last_refusal}")
    if any(len(messages) >= MOST_LISTED for _, messages, _ in listed):
        print(f"more than {MOST_LISTED:,} wait; these are the oldest")


def _outbox_of(message_id: str) -> Outbox:
    """An id says whose it is: it carries the name of a booking shard, or `payments`."""
    parsed = parse_id("msg", message_id)
    if parsed is None:
        raise CliError(f'"{message_id}" is no message\'s id; they begin with msg_, see rowlock outbox list.')
    return Outbox("payments" if parsed[0] == "payments" else "booking")


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise CliError("Nobody is here to be asked: say --yes.", WRONG_USE)
    if not typer.confirm(question):
        raise CliError("Nothing was dropped.", WRONG_USE)


def _print_done(message_id: str, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"messageId": message_id})
    else:
        print(f"{message_id} {what}")
