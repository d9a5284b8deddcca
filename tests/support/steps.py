"""Work in steps, where nobody else waits."""

from typing import TypeVar

from services.booking.steps import Steps

T = TypeVar("T")


def at_once(steps: Steps[T]) -> T:
    """To the end, without a stop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
