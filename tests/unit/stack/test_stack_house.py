"""A start that is interrupted, or takes too long."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stack import house
from stack.errors import StackError
from stack.settings import StackSettings
from stack.stopping import unbroken


def test_a_sample_catalog_that_takes_too_long_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(argv: list[str], **_options: Any) -> None:
        raise subprocess.TimeoutExpired(argv, house.SAMPLE_CATALOG_SECONDS)

    monkeypatch.setattr(subprocess, "run", hang)
    made = house.House(StackSettings(home=tmp_path))
    with pytest.raises(StackError, match="300 s"):
        made._load_sample_catalog()
    assert not made.home.catalog_loaded.exists()


def test_an_interruption_waits_until_a_process_is_written_down() -> None:
    steps = []

    def start() -> None:
        with unbroken():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("written down")
        steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["written down"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
