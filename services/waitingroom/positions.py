"""Joining a line: the account's position, and the queue token that proves it."""

from dataclasses import dataclass

from chassis.tokens import QUEUE_AUDIENCE, KeyRing
from services.waitingroom.line import eta_seconds
from services.waitingroom.rows import Position
from services.waitingroom.store.lines import LineStore

UNBOUNDED_SECONDS = 30 * 24 * 3600  # a queue token of a sale whose end nobody has set


@dataclass(frozen=True, slots=True)
class Joined:
    """A position, its token, and about how long it will take; None when there is no rate yet."""

    position: Position
    queue_token: str
    eta_seconds: float | None


async def join_line(store: LineStore, ring: KeyRing, event_id: str, account: str) -> Joined:
    """The account's one position in this line. The token lives until the sale ends."""
    position = await store.join_line(event_id, account)
    left = (position.sale_end - position.as_of) / 1000 if position.sale_end else UNBOUNDED_SECONDS
    claims = {"sub": account, "eid": event_id, "pos": position.position, "epoch": position.epoch}
    token = ring.sign(QUEUE_AUDIENCE, max(1.0, left), **claims)
    ahead = position.position - position.admitted_through
    return Joined(position, token, eta_seconds(ahead, position.rate_per_second))
