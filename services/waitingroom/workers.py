"""What goes on by itself: the ticks, the figures with their alarm, and the askings what is left."""

from chassis.workers import Worker
from services.waitingroom.admitter import Admitter
from services.waitingroom.counts import CountsWatch, SeatFeed
from services.waitingroom.store.lines import LineStore
from services.waitingroom.watch import Watch

WATCH_SECONDS = 2.0
COUNTS_SECONDS = 2.0


def all_workers(lines: LineStore, *, seatfeed: SeatFeed | None, tick_seconds: float) -> list[Worker]:
    """For the server to run; any number of processes may."""
    asking = [Worker("counts", CountsWatch(lines, seatfeed).run_once, COUNTS_SECONDS)] if seatfeed else []
    ticks = Worker("admitter", Admitter(lines).run_once, tick_seconds)
    return [ticks, Worker("watch", Watch(lines).run_once, WATCH_SECONDS), *asking]
