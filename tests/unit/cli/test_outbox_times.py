"""How long ago, as operators type and read it."""

from datetime import UTC, datetime, timedelta

import pytest

from cli.errors import CliError
from cli.outbox import age, parse_since


@pytest.mark.parametrize(
    ("text", "span"),
    [("30m", timedelta(minutes=30)), (" 6h ", timedelta(hours=6)), ("7d", timedelta(days=7)), ("now", timedelta())],
)
def test_since_is_a_span_or_a_time(text: str, span: timedelta) -> None:
    assert abs(datetime.now(UTC) - span - parse_since(text)) < timedelta(seconds=5)
    assert parse_since("2027-03-31 20:00") == datetime(2027, 3, 31, 20, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "h", "-6h", "6w", "99999d", "6 hours"])
def test_since_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CliError):
        parse_since(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0 s"), (59, "59 s"), (60, "1 m"), (7199, "1 h"), (86_400, "1 d"), (700_000, "8 d")]
)
def test_age_is_told_in_its_largest_unit(seconds: int, text: str) -> None:
    assert age(timedelta(seconds=seconds)) == text
