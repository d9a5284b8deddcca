import json
from collections.abc import Iterator

import pytest
import structlog

from chassis.telemetry import configure_logs


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Logs of this test go to its own stderr, and of the next to that one's."""
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "secret",
    [
        "ann@example.org",
        "4242 4242 4242 4242",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln",
        "postgresql://app:hunter2@127.0.0.1/x",
    ],
)
def test_logs_carry_no_secret(secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    structlog.get_logger().info("tried", words=f"before {secret} after", payment_token="pm_1")
    line = json.loads(capsys.readouterr().err)
    assert line["words"].startswith("before ")
    assert line["words"].endswith(" after") or "hunter2" not in line["words"]
    assert secret not in line["words"]
    assert line["payment_token"] == "[redacted]"


def test_logs_carry_no_secret_inside_of_a_list_either(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    structlog.get_logger().info("tried", examples=("account ann@example.org", 7), sent={"payment_token": "pm_1"})
    line = json.loads(capsys.readouterr().err)
    assert line["examples"] == ["account [redacted]", 7]
    assert line["sent"] == {"payment_token": "[redacted]"}
