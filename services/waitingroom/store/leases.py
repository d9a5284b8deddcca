"""Leases: who is inside, and until when."""

from typing import Any

from services.waitingroom.errors import AdmissionMissed, EventNotFound, LeaseEnded, NotOnSale, NotYet
from services.waitingroom.rows import Lease, Terms
from services.waitingroom.store.scripts import Scripts


class LeaseStore:
    """One lease for each account and event."""

    def __init__(self, scripts: Scripts, terms: Terms) -> None:
        self.scripts = scripts
        self.grace_ms, self.lease_ms = terms.grace_seconds * 1000, terms.lease_seconds * 1000
        self.max_stay_ms = terms.max_stay_seconds * 1000

    async def enter_event(self, event_id: str, account: str, position: int, epoch: int) -> Lease:
        """The lease that the position is traded for, or the one that lives already."""
        times = (self.grace_ms, self.lease_ms, self.max_stay_ms)
        return _lease(await self.scripts.run("enter_event", event_id, account, position, epoch, *times))

    async def heartbeat(self, event_id: str, account: str) -> Lease:
        """The lease, renewed."""
        return _lease(await self.scripts.run("heartbeat", event_id, account, self.lease_ms))

    async def leave_event(self, event_id: str, account: str, position: int, epoch: int) -> None:
        """Ends the lease, or gives the position back."""
        if await self.scripts.run("leave_event", event_id, account, position, epoch) is None:
            raise EventNotFound


def _lease(answer: Any) -> Lease:
    if answer is None:
        raise EventNotFound
    match answer:
        case ["ENTERED", as_of, expires, max_stay]:
            return Lease(as_of, expires, max_stay)
        case ["NOT_YET", admitted_through]:
            raise NotYet(admitted_through)
        case ["ENDED", _]:
            raise NotOnSale
        case ["MISSED"]:
            raise AdmissionMissed
    raise LeaseEnded
