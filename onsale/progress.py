"""What the person at the terminal sees while the sale runs; all of it on stderr."""

import asyncio
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from onsale.fans import Seen

LINE_SECONDS = 5.0  # between two lines where there is no terminal to redraw


class SaleProgress:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, fans: int, seen: Seen) -> None:
        self.fans, self.seen, self.began = fans, seen, time.monotonic()

    async def show(self) -> None:
        """Until cancelled."""
        if sys.stderr.isatty():
            await self._bar()
        while True:
            await asyncio.sleep(LINE_SECONDS)
            print(f"{time.monotonic() - self.began:4.0f} s  {self._words()}", file=sys.stderr, flush=True)

    async def _bar(self) -> None:
        columns = (TextColumn("[bold]On-sale"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=self.fans)
            while True:
                progress.update(task, completed=len(self.seen.endings), description=self._words())
                await asyncio.sleep(0.25)

    def _words(self) -> str:
        confirmed = sum(state == "ORDER_STATE_CONFIRMED" for state in self.seen.orders.values())
        return (
            f"{len(self.seen.endings)} of {self.fans} fans done, {confirmed} orders confirmed,"
            f" {self.seen.conflicts} races lost"
        )
