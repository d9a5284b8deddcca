"""Being inside: a lease, and the short admission tokens that it is good for."""

from dataclasses import dataclass

from chassis.tokens import ADMISSION_AUDIENCE, Caller, KeyRing
from services.waitingroom.rows import Lease, Terms
from services.waitingroom.store.leases import LeaseStore


@dataclass(frozen=True, slots=True)
class Admission:
    """A lease with a fresh admission token."""

    lease: Lease
    token: str


@dataclass(frozen=True, slots=True)
class Admissions:
    """What a caller with a queue token may do; the token must be of the event that the request names."""

    store: LeaseStore
    ring: KeyRing
    terms: Terms

    async def enter_event(self, event_id: str, caller: Caller) -> Admission:
        """A lease for a position that the line has passed; the same lease while it lives."""
        caller.require_event(event_id)
        return self._admit(
            caller, await self.store.enter_event(event_id, caller.account, caller.position, caller.epoch)
        )

    async def heartbeat(self, event_id: str, caller: Caller) -> Admission:
        """The lease, renewed, with a token that replaces the one before."""
        caller.require_event(event_id)
        return self._admit(caller, await self.store.heartbeat(event_id, caller.account))

    async def leave_event(self, event_id: str, caller: Caller) -> None:
        """Gives the lease, or the position, back."""
        caller.require_event(event_id)
        await self.store.leave_event(event_id, caller.account, caller.position, caller.epoch)

    def _admit(self, caller: Caller, lease: Lease) -> Admission:
        left = (lease.max_stay - lease.as_of) / 1000  # no token outlives the longest stay
        claims = {"sub": caller.account, "eid": caller.event, "pos": caller.position, "epoch": caller.epoch}
        lifetime = max(1.0, min(self.terms.admission_token_seconds, left))
        return Admission(lease, self.ring.sign(ADMISSION_AUDIENCE, lifetime, **claims))
