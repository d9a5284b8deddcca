"""Times as organisers write them: on the venue's clock."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from google.protobuf.timestamp_pb2 import Timestamp

from cli.errors import CliError

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_time(text: str, zone: str) -> datetime:
    """`2027-03-31 20:00` in the zone, `2027-03-31T20:00+02:00` as it says, or `now`. The result is in UTC."""
    if text.strip() == "now":
        return datetime.now(UTC)
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise CliError(f'"{text}" is no time; write it like "2027-03-31 20:00", or now.') from None
    return (time if time.tzinfo else time.replace(tzinfo=zone_of(zone))).astimezone(UTC)


def parse_duration(text: str) -> timedelta:
    """`90s`, `30m`, `6h` or `2d`."""
    span = re.fullmatch(r"([0-9]{1,6})([smhd])", text.strip())
    if span is None:
        raise CliError(f'"{text}" is no length of time; write it like 90s, 30m, 6h or 2d.')
    return timedelta(**{UNITS[span[2]]: int(span[1])})


def format_time(message: Timestamp, zone: str) -> str:
    """On the venue's clock: `Wed 31 Mar 2027 20:00`."""
    return message.ToDatetime(tzinfo=UTC).astimezone(zone_of(zone)).strftime("%a %d %b %Y %H:%M")


def timestamp(time: datetime) -> Timestamp:
    """For a request."""
    message = Timestamp()
    message.FromDatetime(time)
    return message


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its IANA name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise CliError(f'"{name}" is no time zone that this machine knows; write one like Europe/Lisbon.') from None
