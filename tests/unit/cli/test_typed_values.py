"""Amounts, times and prices as people type them."""

from datetime import UTC, datetime, timedelta

import pytest

from cli.errors import CliError
from cli.events import areas_of, prices_of
from cli.money import format_money, parse_money
from cli.times import format_time, parse_duration, parse_time, timestamp


@pytest.mark.parametrize(
    ("text", "minor"), [("EUR 12.50", 1250), ("EUR 12", 1200), ("EUR 0.5", 50), ("JPY 500", 500), ("KWD 1.250", 1250)]
)
def test_amounts_have_the_digits_of_their_currency(text: str, minor: int) -> None:
    assert parse_money(text).amount_minor == minor
    assert parse_money(format_money(parse_money(text))) == parse_money(text)


@pytest.mark.parametrize("text", ["12.50", "eur 5", "EUR", "EUR -5", "EUR 1.255", "JPY 5.5", "EUR 1e3", "EUR ٣"])
def test_amounts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(CliError):
        parse_money(text)


def test_times_are_the_venues() -> None:
    time = parse_time("2027-07-01 20:00", "Europe/Lisbon")
    assert time == datetime(2027, 7, 1, 19, tzinfo=UTC)
    assert format_time(timestamp(time), "Europe/Lisbon") == "Thu 01 Jul 2027 20:00"
    assert parse_time("2027-07-01T20:00+05:00", "Europe/Lisbon") == datetime(2027, 7, 1, 15, tzinfo=UTC)


@pytest.mark.parametrize(("text", "zone"), [("tomorrow", "UTC"), ("2027-02-30 20:00", "UTC"), ("2027-02-03", "Mars/X")])
def test_times_that_are_none_are_refused(text: str, zone: str) -> None:
    with pytest.raises(CliError):
        parse_time(text, zone)


def test_price_without_a_category_is_for_all_others() -> None:
    prices = prices_of(["Box=EUR 9", "EUR 2"], "EUR 0.10", ["Stalls", "Box", "Gallery"])
    assert [(price.category, price.price.amount_minor, price.fee.amount_minor) for price in prices] == [
        ("Stalls", 200, 10),
        ("Box", 900, 10),
        ("Gallery", 200, 10),
    ]


@pytest.mark.parametrize("prices", [["EUR 1", "EUR 2"], ["Roof=EUR 1"], ["Box=1"]])
def test_prices_that_make_no_sense_are_refused(prices: list[str]) -> None:
    with pytest.raises(CliError):
        prices_of(prices, "", ["Box"])


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("6h", timedelta(hours=6)),
        (" 2d ", timedelta(days=2)),
    ],
)
def test_lengths_of_time(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "1.5h", "1w", "2027-01-01 20:00", "٣h"])
def test_lengths_of_time_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(CliError):
        parse_duration(text)


def test_area_has_the_fee_of_the_event_unless_it_has_its_own() -> None:
    areas = areas_of(["Standing:400:EUR 30.00", " Terrace : 50 : EUR 12 : EUR 1 "], "EUR 2.50")
    assert [(area.name, area.capacity, area.price.amount_minor, area.fee.amount_minor) for area in areas] == [
        ("Standing", 400, 3000, 250),
        ("Terrace", 50, 1200, 100),
    ]
    (free,) = areas_of(["Lawn:10:EUR 0"], "")
    assert not free.HasField("fee")


@pytest.mark.parametrize(
    "area",
    ["Standing", "Standing:400", ":400:EUR 30", "Standing:many:EUR 30", "Standing:-1:EUR 3", "S:1:EUR 3:EUR 1:x"],
)
def test_areas_that_make_no_sense_are_refused(area: str) -> None:
    with pytest.raises(CliError):
        areas_of([area], "")
