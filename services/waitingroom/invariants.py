"""Whether a promise about the lines broke. The checks are the store's; what each means stands here."""

from collections import defaultdict

from chassis.invariants import Invariant
from services.waitingroom.line import for_each_line
from services.waitingroom.rows import Check
from services.waitingroom.store.lines import LineStore

DESCRIPTIONS = {
    "in_flight_over_capacity": "More accounts are inside than the capacity and its slack allow.",
    "admitted_past_tail": "Positions were passed that nobody was given.",
    "cohort_past_admitted": "A tick's positions reach further than the line has moved.",
    "lease_without_position": "An account is inside with no position that was used for it.",
    "lease_past_max_stay": "A lease outlives the longest stay.",
    "lease_too_long": "A lease ends later than a heartbeat now could make it.",
    "position_given_twice": "Two accounts have one position.",
}


async def check_invariants(store: LineStore) -> list[Invariant]:
    """Every invariant over all lines, also the kept ones; examples are `<event> <what>`."""
    found: dict[str, list[tuple[str, Check]]] = defaultdict(list)

    async def check(event_id: str) -> None:
        for result in await store.check_line(event_id):
            found[result.name].append((event_id, result))

    await for_each_line(await store.list_lines(), check)
    return [_sum_up(name, found[name]) for name in DESCRIPTIONS]


def _sum_up(name: str, results: list[tuple[str, Check]]) -> Invariant:
    examples = [f"{event_id} {example}" for event_id, result in results for example in result.examples]
    violations = sum(result.violations for _, result in results)
    return Invariant(name, DESCRIPTIONS[name], violations, examples)
