"""What catalog refuses, a class for each reason."""

from collections.abc import Sequence

from chassis.errors import Code, Refusal

MOST_FAULTS_TOLD = 1_000  # they travel in a header: some 150 KB


class EventNotFound(Refusal):
    """No published event has this id, or (for organisers) none at all."""

    code = Code.NOT_FOUND
    reason = "EVENT_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no such event.")


class VenueNotFound(Refusal):
    """No venue has this id."""

    code = Code.NOT_FOUND
    reason = "VENUE_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no such venue.")


class VenueDiffers(Refusal):
    """A venue of that name is known with another city, country or time zone; events rely on them."""

    code = Code.ALREADY_EXISTS
    reason = "VENUE_DIFFERS"


class PlanInvalid(Refusal):
    """A seating plan that cannot be taken. `metadata.faults` says where and what, one to a line."""

    code = Code.INVALID_ARGUMENT
    reason = "PLAN_INVALID"

    def __init__(self, message: str, faults: Sequence[str]) -> None:
        told = list(faults[:MOST_FAULTS_TOLD])
        if len(faults) > len(told):
            told.append(f"… and {len(faults) - len(told):,} more")
        super().__init__(message, faults="\n".join(told))


class TierMissing(Refusal):
    """The plan has categories that the event sets no price for; `metadata.categories` names them."""

    code = Code.INVALID_ARGUMENT
    reason = "TIER_MISSING"

    def __init__(self, categories: Sequence[str]) -> None:
        super().__init__(f"A price is missing for: {', '.join(categories)}.", categories="\n".join(categories))


class SeatIdsExhausted(Refusal):
    """The 32 bits of seat ids are used up: some ten thousand stadiums."""

    code = Code.FAILED_PRECONDITION
    reason = "SEAT_IDS_EXHAUSTED"

    def __init__(self) -> None:
        super().__init__("There are not so many seat ids left.")


class PeerRefused(Refusal):
    """A service that publishing depends on said no, and will say it again; `metadata` has who and why."""

    code = Code.FAILED_PRECONDITION
    reason = "PEER_REFUSED"
