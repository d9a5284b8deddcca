"""What other services say of a line: its policy from catalog, sales from booking."""

from collections.abc import Sequence

from chassis.errors import InvalidArgument
from services.waitingroom.line import for_each_line
from services.waitingroom.rows import Policy, Sales
from services.waitingroom.store.lines import LineStore

MOST_EVENTS = 1000  # in a report: more than are ever on sale in one process at once


async def put_line_policy(store: LineStore, event_id: str, policy: Policy) -> bool:
    """Whether the policy was newer than the one known."""
    if policy.version < 1:
        raise InvalidArgument("A policy's version is 1 or more.", field="version")
    if policy.capacity < 0 or (policy.line and policy.capacity < 1):
        raise InvalidArgument("A line needs a capacity of 1 or more.", field="capacity")
    if policy.sale_start and policy.sale_end and policy.sale_end <= policy.sale_start:
        raise InvalidArgument("The sale must end after it starts.", field="sale_end_time")
    return await store.put_line_policy(event_id, policy)


async def report_sales(store: LineStore, report: Sequence[Sales]) -> None:
    """Ends the leases of accounts that finished. A report that comes twice counts its commits twice, and no more."""
    if len(report) > MOST_EVENTS:
        raise InvalidArgument(f"A report names {MOST_EVENTS} events at most.", field="events")
    of_event = {sales.event_id: sales for sales in report}
    if len(of_event) < len(report):
        raise InvalidArgument("A report names an event once.", field="events")

    async def note(event_id: str) -> None:
        await store.report_sales(of_event[event_id])

    await for_each_line(list(of_event), note)
