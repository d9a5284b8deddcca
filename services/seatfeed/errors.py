"""What seatfeed refuses."""

from chassis.errors import Code, Refusal, Unavailable


class EventNotFound(Refusal):
    """No event of that id has seats here."""

    code = Code.NOT_FOUND
    reason = "EVENT_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no such event.")


class SectionNotFound(Refusal):
    """The event has no section of that name."""

    code = Code.NOT_FOUND
    reason = "SECTION_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("The event has no such section.")


class PictureMissing(Unavailable):
    """No picture was stored yet, or the store is away and this process never had one."""

    def __init__(self) -> None:
        super().__init__("There is no picture of the seats yet; try again in a moment.")


class TooManySubscribers(Unavailable):
    """This process carries as many streams as it may."""

    def __init__(self) -> None:
        super().__init__("Too many streams are open here; try again in a moment.")


class PictureLost(Exception):
    """The stored pictures are not what this writer left there: it is no longer the writer, or the store lost them."""
