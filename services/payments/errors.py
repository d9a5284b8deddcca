"""Why payments refuses."""

from typing import ClassVar

import grpc

from chassis.errors import Refusal


class ChargeConflict(Refusal):
    """The order was asked for with another amount or token."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.ALREADY_EXISTS
    reason = "CHARGE_CONFLICT"


class ChargeAbandoned(Refusal):
    """The order was given up: it is not charged any more."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION
    reason = "CHARGE_ABANDONED"


class AttemptNotFound(Refusal):
    """Nobody asked for a charge of this order."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.NOT_FOUND
    reason = "ATTEMPT_NOT_FOUND"


class ClaimLost(Exception):
    """Another worker has the attempt by now: whoever hears this stops and changes nothing."""


class ConstraintBroken(Exception):
    """The database kept a promise that the code was about to break: a defect. Names the constraint, and no values."""
