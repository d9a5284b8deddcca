"""What a list is asked for in text: days, sizes, and the token that says where a page begins."""

import base64
import binascii
import struct
import zlib
from datetime import UTC, date, datetime, timedelta

from chassis.errors import InvalidArgument
from services.catalog.rows import Position

DEFAULT_PAGE_SIZE, LARGEST_PAGE_SIZE = 20, 100
TOKEN = struct.Struct(
    ">qqI"
)  # microseconds since 1970, event, checksum: a slip is told from a token, a forgery harms none
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def page_size_of(size: int) -> int:
    """The default when unset; never more than the largest."""
    if size < 0:
        raise InvalidArgument("A page has no negative size.", field="page_size")
    return min(size or DEFAULT_PAGE_SIZE, LARGEST_PAGE_SIZE)


def day_of(field: str, text: str) -> date | None:
    """`YYYY-MM-DD`; None when empty."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        if day.isoformat() == text and day.year > 1:
            return day
    except ValueError:
        pass
    raise InvalidArgument(f"{field} is not a day like 2027-03-31.", field=field)


def format_token(position: Position) -> str:
    """A page token that begins just after a position."""
    microseconds = (position.start_time - EPOCH) // timedelta(microseconds=1)
    body = struct.pack(">qq", microseconds, position.event_id)
    return base64.urlsafe_b64encode(body + struct.pack(">I", zlib.crc32(body))).rstrip(b"=").decode()


def parse_token(text: str) -> Position | None:
    """None when empty; refuses what `format_token` did not write."""
    if not text:
        return None
    try:
        body = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        microseconds, event_id, checksum = TOKEN.unpack(body)
        if checksum == zlib.crc32(body[:16]):
            return Position(EPOCH + timedelta(microseconds=microseconds), event_id)
    except (binascii.Error, struct.error, ValueError, OverflowError):
        pass
    raise InvalidArgument("page_token is not one of ours.", field="page_token")
