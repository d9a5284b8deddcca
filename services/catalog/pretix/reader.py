"""Bytes in, a drawing out: refused with every fault named, or mended and every change told."""

import json
from itertools import chain, islice
from typing import Any, NamedTuple, NoReturn

from services.catalog.errors import PlanInvalid
from services.catalog.pretix.drawing import draw
from services.catalog.pretix.meaning import meaning_faults
from services.catalog.pretix.shapes import Fault, shape_faults
from services.catalog.rows import Drawing

LARGEST_PLAN_BYTES = (
    20 * 1024 * 1024
)  # 200,000 seats in the format's own verbosity take 50 to 90 bytes each, twice over
MOST_FAULTS = 200_000  # one for each seat; a file with more is not worth listing
ROUNDS = 4  # of mending: a change may bring to light what it had hidden, a text that repeats once it is a text


class ReadPlan(NamedTuple):
    """What was in a file, and what had to be changed, a sentence each."""

    drawing: Drawing
    repairs: list[str]


def read_plan(data: bytes, *, repair: bool) -> ReadPlan:
    """Refuses with PLAN_INVALID. Some seconds of CPU for the largest plan: not for the event loop's thread."""
    document = _parse(data)
    repairs: list[str] = []
    for _ in range(ROUNDS):
        faults = _faults_of(document)
        if not faults:
            return ReadPlan(draw(document), repairs)
        hopeless = [fault for fault in faults if fault.mend is None]
        if hopeless or not repair:
            _refuse(hopeless if repair else faults, repair)
        for fault in faults:
            if fault.mend:
                fault.mend()
            repairs.append(f"{fault}: {fault.repair}")
    _refuse(_faults_of(document), repair)


def _parse(data: bytes) -> Any:
    if len(data) > LARGEST_PLAN_BYTES:
        raise PlanInvalid(
            f"The plan has {len(data):,} bytes; {LARGEST_PLAN_BYTES:,} are the most.", ["the file: is too large"]
        )
    try:
        return json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        what = "is nested too deep" if isinstance(error, RecursionError) else f"is not JSON: {error}"
        raise PlanInvalid("The plan cannot be read.", [f"the file: {what}"]) from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _faults_of(document: Any) -> list[Fault]:
    return list(islice(chain(shape_faults(document), meaning_faults(document)), MOST_FAULTS))


def _refuse(faults: list[Fault], repair: bool) -> NoReturn:
    count = "one fault" if len(faults) == 1 else f"{len(faults):,} faults"
    how = " that cannot be repaired" if repair else ""
    raise PlanInvalid(f"The plan has {count}{how}.", [str(fault) for fault in faults])
