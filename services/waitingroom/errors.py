"""What waitingroom refuses."""

from chassis.errors import Code, Refusal


class EventNotFound(Refusal):
    """No policy was ever put for it."""

    code = Code.NOT_FOUND
    reason = "EVENT_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no such event.")


class NotOnSale(Refusal):
    """The sale is over: nobody joins or enters any more."""

    code = Code.ABORTED
    reason = "NOT_ON_SALE"

    def __init__(self) -> None:
        super().__init__("The sale of this event is over.")


class NotYet(Refusal):
    """The line has not come to the position."""

    code = Code.ABORTED
    reason = "NOT_YET"

    def __init__(self, admitted_through: int) -> None:
        super().__init__("It is not your turn yet.", admittedThrough=str(admitted_through))


class AdmissionMissed(Refusal):
    """The position was passed and not claimed within the grace, or is of an older counting."""

    code = Code.ABORTED
    reason = "ADMISSION_MISSED"

    def __init__(self) -> None:
        super().__init__("Your turn has passed; join again for a new position at the back.")


class LeaseEnded(Refusal):
    """The lease was given back or ran out."""

    code = Code.ABORTED
    reason = "LEASE_ENDED"

    def __init__(self) -> None:
        super().__init__("Your time inside has ended; join again to come back.")
