"""The logs of all parts in one stream, as `up` shows them."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

PAUSE_SECONDS = 0.3
LARGEST_STEP_BYTES = 256 * 1024  # of one log at a time, so that a talkative part does not silence the others


class Tail:
    """What is appended to one file from now on, in whole lines."""

    def __init__(self, file: Path) -> None:
        self.file, self.position, self.rest = file, size_of(file), b""

    def lines(self) -> list[str]:
        """The lines that are new since the last call."""
        if size_of(self.file) < self.position:  # put aside, and begun anew
            self.position = 0
        if size_of(self.file) == self.position:
            return []
        with self.file.open("rb") as log:
            log.seek(self.position)
            read = log.read(LARGEST_STEP_BYTES)
        self.position += len(read)
        *lines, self.rest = (self.rest + read).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def follow(logs: Mapping[str, Path], dead: Callable[[], Mapping[str, str]]) -> None:
    """Prints until interrupted. A part that ends is told once, loudly; nothing is started again."""
    tails = {part: Tail(file) for part, file in logs.items()}
    width = max(map(len, logs))
    told: set[str] = set()
    while True:
        for part, tail in tails.items():
            for line in tail.lines():
                print(f"{part:<{width}} | {line}", flush=True)
        for part, how in dead().items():
            if part not in told:
                told.add(part)
                print(f"*** {part} {how}: see {logs[part]}; `make start` in another terminal starts it.", flush=True)
        time.sleep(PAUSE_SECONDS)


def size_of(file: Path) -> int:
    """0 if there is none."""
    return file.stat().st_size if file.exists() else 0
