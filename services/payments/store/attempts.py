"""Attempts, and the outbox rows that go with their outcomes."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from chassis import outbox
from chassis.postgres import acquire, finish, with_retries
from chassis.queries import affected, load_queries
from services.payments.errors import ClaimLost, ConstraintBroken
from services.payments.rows import Attempt, Charge, State, Unsettled, Verdict

T = TypeVar("T")

SENDING_SECONDS = 23 * 3600.0  # the processor may forget a key after 24 hours; then a repeat would be a second charge
FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 60.0  # ten looks within the bound on ambiguity

TIMED_OUT = "PAYMENT_TIMED_OUT"  # the reason to end an attempt that stayed undecided for too long

# What became of an abandoned attempt, in the order in which it is tried.
UNHEARD, UNSENT, CLOSING, KNOWN = "UNHEARD", "UNSENT", "CLOSING", "KNOWN"

queries = load_queries(Path(__file__).with_suffix(".sql"))


class Attempts:
    """Each method is one transaction, which ends before the method does.

    `claim_seconds` must be longer than a call of the processor; a claim is renewed before each, so only the dead lose
    theirs.
    """

    def __init__(self, pool: asyncpg.Pool, *, ambiguity_seconds: float, claim_seconds: float) -> None:
        self.pool, self.ambiguity_seconds, self.claim_seconds = pool, ambiguity_seconds, claim_seconds

    async def insert(self, charge: Charge) -> Attempt:
        """The order's attempt: this one, or the one that was there. Durable when this returns."""
        return await self._write(lambda connection: insert(connection, charge))

    async def abandon(self, order_id: str) -> tuple[str, Attempt]:
        """Ends an attempt that was never sent, has one that was ended at the processor, and leaves a settled one alone.

        UNHEARD, UNSENT, CLOSING or KNOWN, and the attempt then. Durable when this returns.
        """
        return await self._write(lambda connection: abandon(connection, order_id))

    async def get(self, order_id: str) -> Attempt | None:
        async with acquire(self.pool, "payments") as connection:
            row = await queries.get_attempt(connection, order_id=order_id)
        return attempt_of(row) if row else None

    async def claim(self, most: int) -> list[Attempt]:
        """At most `most` due attempts, soonest first; nobody else has them until the claim ends."""
        limits = {"claim_seconds": self.claim_seconds, "ambiguity_seconds": self.ambiguity_seconds}

        async def claim(connection: asyncpg.Connection) -> list[Attempt]:
            rows = queries.claim_attempts(
                connection, most=most, **limits, sending_seconds=SENDING_SECONDS, closing_reason=TIMED_OUT
            )
            return [attempt_of(row) async for row in rows]

        return await self._write(claim)

    async def record_send(self, attempt: Attempt) -> Attempt:
        """The attempt, with the reason to end it that somebody may have given meanwhile.

        Raises ClaimLost: then nothing may be sent.
        """
        claim = {**claim_of(attempt), "claim_seconds": self.claim_seconds}
        row = await self._write(lambda connection: queries.record_send(connection, **claim))
        if row is None:
            raise ClaimLost
        return replace(attempt, closing_reason=row["closing_reason"])

    async def record_reference(self, attempt: Attempt, reference: str) -> Attempt:
        """The attempt with its reference. Raises ClaimLost."""
        claim = {**claim_of(attempt), "processor_reference": reference}
        require_claim(await self._write(lambda connection: queries.record_reference(connection, **claim)))
        return replace(attempt, processor_reference=reference)

    async def record_verdict(self, attempt: Attempt, verdict: Verdict) -> bool:
        """Writes a verdict, with the message that tells booking; whether there was something to tell."""
        return await self._write(lambda connection: record_verdict(connection, attempt, verdict))

    async def measure_unsettled(self) -> Unsettled:
        async with acquire(self.pool, "payments") as connection:
            row = await queries.measure_unsettled(connection)
        return Unsettled(**row)

    async def _write(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Runs a transaction to its end, also without its caller, and again from the top if others were in the way."""

        async def once() -> T:
            async with acquire(self.pool, "payments") as connection:
                with named_constraints():
                    return await work(connection)

        return await finish(with_retries(once))


async def insert(connection: asyncpg.Connection, charge: Charge) -> Attempt:
    async with connection.transaction():
        status = await queries.insert_attempt(
            connection,
            order_id=charge.order_id,
            currency_code=charge.currency_code,
            amount_minor=charge.amount_minor,
            payment_token=charge.payment_token,
        )
        if not affected(status):
            await queries.mark_replay(connection)
        return attempt_of(await queries.get_attempt(connection, order_id=charge.order_id))


async def abandon(connection: asyncpg.Connection, order_id: str) -> tuple[str, Attempt]:
    """Each step finds what the one before it left: an attempt's state only goes forward."""
    order = {"order_id": order_id}
    async with connection.transaction():
        if affected(await queries.abandon_unheard(connection, **order)):
            word = UNHEARD
        elif affected(await queries.abandon_unsent(connection, **order)):
            word = UNSENT
        elif affected(await queries.close_abandoned(connection, **order)):
            word = CLOSING
        else:
            word = KNOWN
            await queries.mark_replay(connection)
        attempt = attempt_of(await queries.get_attempt(connection, **order))
        if word in (UNHEARD, UNSENT):
            await put_outcome(connection, attempt, Verdict(attempt.state, failure_reason=attempt.failure_reason))
        return word, attempt


async def record_verdict(connection: asyncpg.Connection, attempt: Attempt, verdict: Verdict) -> bool:
    async with connection.transaction():
        told = await change_state(connection, attempt, verdict)
        if told:
            await put_outcome(connection, attempt, verdict)
        return told


async def change_state(connection: asyncpg.Connection, attempt: Attempt, verdict: Verdict) -> bool:
    order = {"order_id": attempt.order_id}
    if verdict.state == State.SUCCEEDED:
        return affected(await queries.record_success(connection, **order)) > 0
    if verdict.state == State.FAILED:
        reason = verdict.failure_reason
        return affected(await queries.record_failure(connection, **order, failure_reason=reason)) > 0
    claim = claim_of(attempt)
    if verdict.state == State.UNRESOLVED and affected(await queries.record_unresolved(connection, **claim)):
        return False  # booking was told that it is unknown, and it still is
    before = await queries.record_unknown(
        connection,
        **claim,
        closing_reason=verdict.closing_reason,
        known_reason=attempt.closing_reason,
        first_rest=FIRST_REST_SECONDS,
        longest_rest=LONGEST_REST_SECONDS,
    )
    return bool(before == State.SENT)


async def put_outcome(connection: asyncpg.Connection, attempt: Attempt, verdict: Verdict) -> None:
    """`outcome` is SUCCEEDED, FAILED or UNKNOWN."""
    outcome = verdict.state if verdict.decided else State.UNKNOWN
    payload = {
        "orderId": attempt.order_id,
        "outcome": outcome.value,
        "failureReason": verdict.failure_reason or "",
    }
    await outbox.put(connection, sink="booking", aggregate_id=attempt.order_id, kind="outcome", payload=payload)


def attempt_of(row: Any) -> Attempt:
    return Attempt(**{**row, "state": State(row["state"])})


def claim_of(attempt: Attempt) -> dict[str, Any]:
    """What fences a worker that lost its claim."""
    return {"order_id": attempt.order_id, "claim_number": attempt.claim_number}


def require_claim(status: str) -> None:
    if not affected(status):
        raise ClaimLost


@contextmanager
def named_constraints() -> Iterator[None]:
    """A broken constraint by its name alone: the database's own words quote the row, payment token and all."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        raise ConstraintBroken(error.constraint_name or "unnamed") from None
