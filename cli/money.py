"""Amounts as people write them: `EUR 12.50`, `JPY 500`, `KWD 1.250`."""

import re
from decimal import Decimal

from rowlock.money.v1.money_pb2 import Money

from cli.errors import CliError

WRITTEN = re.compile(r"([A-Z]{3})\s+([0-9]{1,12}(?:\.[0-9]{1,4})?)")
DIGITS = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV"), 0),
    **dict.fromkeys(("XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}
"""Digits after the point by ISO 4217, where they are not two."""


def parse_money(text: str) -> Money:
    """Refuses more digits than the currency has."""
    match = WRITTEN.fullmatch(text.strip())
    if match is None:
        raise CliError(f'"{text}" is no amount; write it like EUR 12.50.')
    minor = Decimal(match[2]).scaleb(DIGITS.get(match[1], 2))
    if minor != int(minor):
        raise CliError(f'"{text}" has more digits after the point than {match[1]} knows.')
    return Money(currency_code=match[1], amount_minor=int(minor))


def format_money(money: Money) -> str:
    """The same, the other way."""
    digits = DIGITS.get(money.currency_code, 2)
    return f"{money.currency_code} {Decimal(money.amount_minor).scaleb(-digits):.{digits}f}"
