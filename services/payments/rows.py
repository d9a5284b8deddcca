"""What the store returns, and what the processor answers."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """Of an attempt; the words of the database and of the proto."""

    CREATED = "CREATED"
    SENT = "SENT"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
    UNRESOLVED = "UNRESOLVED"


@dataclass(frozen=True, slots=True)
class Charge:
    """What booking asks for."""

    order_id: str
    currency_code: str
    amount_minor: int
    payment_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row. `may_send` is false 23 hours after the first send: from then on the processor is only asked.

    `closing_reason` is set for one that is to be ended at the processor, or was. Currency, amount and token are empty
    for one that was abandoned before its charge was asked for.
    """

    order_id: str
    state: State
    currency_code: str
    amount_minor: int
    payment_token: str = field(repr=False)
    processor_reference: str | None
    failure_reason: str | None
    closing_reason: str | None
    send_count: int
    claim_number: int
    create_time: datetime
    may_send: bool


@dataclass(frozen=True, slots=True)
class Unsettled:
    """How many attempts have no outcome, and for how long the oldest has had none."""

    attempts: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Intent:
    """The processor's record of a payment. `status` is the processor's word."""

    reference: str
    status: str
    amount_minor: int
    received_minor: int
    currency_code: str
    order_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back from the processor: an intent, an error, or nothing at all (`http_status` 0)."""

    http_status: int
    intent: Intent | None = None
    error_type: str = ""
    code: str = ""
    decline_code: str = ""
    param: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """SUCCEEDED, FAILED with its reason, UNKNOWN, or UNRESOLVED.

    `closing_reason` asks for an end at the processor; `alarm` says what a person should know of.
    """

    state: State
    failure_reason: str | None = None
    closing_reason: str | None = None
    alarm: str = ""

    @property
    def decided(self) -> bool:
        return self.state in (State.SUCCEEDED, State.FAILED)
