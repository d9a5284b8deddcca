import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.gateway.house import House


@pytest.fixture(scope="session")
def standing_house() -> Iterator[House]:
    scratch = Path(tempfile.mkdtemp(prefix="rowlock edge "))  # with a space: a checkout may have one
    house = House(scratch)
    try:
        house.start()
        yield house
    finally:
        house.stop()
        shutil.rmtree(scratch)


@pytest.fixture
def house(standing_house: House) -> House:
    standing_house.recorder.clear()
    return standing_house


@pytest.fixture
def client(house: House) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=house.url, timeout=20) as client:
        yield client
