"""How full the tick keeps the zone, with thousands of fans in a time of their own."""

from collections.abc import Callable, Iterator

import pytest
import redis

from services.waitingroom.store.scripts import read_scripts
from tests.integration.waitingroom.crowd import Crowd

CAPACITY = 500
FANS = 8000
COUNTS_PROMISED = "local promised = count_promised(cohorts, claimed, curve, leaving)"


def always(share: float) -> Callable[[float], float]:
    return lambda second: share


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as opened:
        yield opened


@pytest.mark.parametrize(
    "no_show",
    [
        pytest.param(always(0.0), id="everybody comes"),
        pytest.param(always(0.4), id="two fifths stay away"),
        pytest.param(always(0.8), id="four fifths stay away"),
        pytest.param(lambda second: 0.4 if second < 400 else 0.8, id="more stay away from second 400"),
    ],
)
def test_tick_keeps_the_zone_full_and_not_fuller(client: redis.Redis, no_show: Callable[[float], float]) -> None:
    peak, mean = Crowd(client, FANS, CAPACITY, no_show).run()
    assert peak <= 1.1
    assert mean >= 0.9


def test_tick_that_does_not_count_the_promised_overfills_the_zone(client: redis.Redis) -> None:
    scripts = read_scripts()
    assert COUNTS_PROMISED in scripts["tick"]
    scripts["tick"] = scripts["tick"].replace(COUNTS_PROMISED, "local promised = 0")
    peak, _ = Crowd(client, FANS, CAPACITY, always(0.4), scripts).run()
    assert peak > 2
