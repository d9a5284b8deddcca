"""What goes on by itself: line policies are put again."""

from functools import partial

from chassis.workers import Worker
from services.catalog.line_policies import WaitingRoom, put_line_policies
from services.catalog.store.events import EventStore

POLICY_SECONDS = 30.0  # how long, at most, an event is unknown to a waiting room that lost its store


def all_workers(events: EventStore, waitingroom: WaitingRoom) -> list[Worker]:
    """For the server to run; any number of processes may."""
    return [Worker("put_line_policies", partial(put_line_policies, events, waitingroom), POLICY_SECONDS)]
