"""Effects outside a database: decided in a transaction, delivered after it, at least once, in order per aggregate."""

from pathlib import Path

from chassis.outbox.keeper import Keeper
from chassis.outbox.operators import Entry, MessageNotFound, Outboxes
from chassis.outbox.relay import Message, Relay, SinkUnavailable
from chassis.outbox.statements import put

OUTBOX_MIGRATIONS = Path(__file__).parent / "migrations"

__all__ = [
    "OUTBOX_MIGRATIONS",
    "Entry",
    "Keeper",
    "Message",
    "MessageNotFound",
    "Outboxes",
    "Relay",
    "SinkUnavailable",
    "put",
]
