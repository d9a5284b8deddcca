"""Bounds of what people type."""

import re
import unicodedata

from chassis.errors import InvalidArgument

LONGEST_NAME = 200  # characters of a title, performer, venue, city
LONGEST_DESCRIPTION = 2_000  # a sentence or two, in any language
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f]")  # Postgres takes no NUL, people no others


def required(field: str, text: str, longest: int = LONGEST_NAME) -> str:
    """The text in composed form, without blanks around it. Refuses one that is empty."""
    text = optional(field, text, longest)
    if not text:
        raise InvalidArgument(f"{field} is missing.", field=field)
    return text


def optional(field: str, text: str, longest: int = LONGEST_NAME) -> str:
    """The same, but it may be empty."""
    text = unicodedata.normalize("NFC", text).strip()
    if len(text) > longest:
        raise InvalidArgument(f"{field} is longer than {longest} characters.", field=field)
    if UNPRINTABLE.search(text):
        raise InvalidArgument(f"{field} has characters that cannot be printed.", field=field)
    return text


def within(field: str, number: int, most: int, least: int = 1) -> int:
    """The number. Refuses one that is out of bounds."""
    if not least <= number <= most:
        raise InvalidArgument(f"{field} is {least:,} to {most:,}.", field=field)
    return number
