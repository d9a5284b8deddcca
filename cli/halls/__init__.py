"""Halls that nobody built: plans in pretix's seating-plan JSON, made to be imported like any other file."""

from collections.abc import Callable

from cli.halls.arena import make_arena
from cli.halls.hall import make_hall
from cli.halls.plan_file import PlanFile
from cli.halls.theatre import make_theatre

HALLS: dict[str, tuple[Callable[[int], PlanFile], int]] = {
    "arena": (make_arena, 18_000),
    "theatre": (make_theatre, 200),
    "hall": (make_hall, 300),
}
"""By kind: what makes it of so many seats, and how many it has unless told."""
