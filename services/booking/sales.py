"""What waitingroom is told each second: how much is sold, how often buyers lose, who is done."""

from collections import defaultdict
from dataclasses import dataclass, field

from services.booking.rows import EventSales

MOST_EVENTS = 1000  # in a report; the rest goes with the next


@dataclass(slots=True)
class _Tally:
    commits: int = 0
    conflicts: int = 0
    finished_accounts: list[str] = field(default_factory=list)


class Sales:
    """Counts between two reports. A report that is lost costs a second of pace, so nothing here is kept."""

    def __init__(self) -> None:
        self._tallies: defaultdict[str, _Tally] = defaultdict(_Tally)

    def committed(self, event_id: str) -> None:
        """A hold or an order."""
        self._tallies[event_id].commits += 1

    def conflicted(self, event_id: str) -> None:
        """Somebody lost a seat."""
        self._tallies[event_id].conflicts += 1

    def finished(self, event_id: str, account: str) -> None:
        """An account has its confirmed order: its lease can end. (At a decline it may try again.)"""
        self._tallies[event_id].finished_accounts.append(account)

    def take(self) -> list[EventSales]:
        """What happened since the last call, at most MOST_EVENTS events."""
        events = list(self._tallies)[:MOST_EVENTS]
        taken = [(event, self._tallies.pop(event)) for event in events]
        return [EventSales(event, t.commits, t.conflicts, tuple(t.finished_accounts)) for event, t in taken]
