"""Promises, checked: each service brings its checks, and operators ask all services by one call."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
from google.protobuf.descriptor import ServiceDescriptor
from rowlock.invariant.v1 import invariant_pb2 as pb
from rowlock.invariant.v1 import invariant_pb2_grpc

from chassis.queries import load_queries, query_names

MOST_EXAMPLES = 10
UNKNOWN = -1  # violations, where no check answered

# A check looks at all rows, also where the role's planner is made for statements that read a few. That there is a
# parameter lets each run have a plan of its own: one that was made while the tables were small would take hours.
WHOLE_TABLES = """
SET LOCAL statement_timeout = '50s'; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = on;
SET LOCAL enable_bitmapscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on;
SET LOCAL enable_material = on
"""
PLANNED_ANEW = "{} LIMIT $1"
FAILURE_LETTERS = 200


@dataclass(frozen=True, slots=True)
class Invariant:
    """A promise: what it means when it broke, how often, where; and a line for each part that could not be asked."""

    name: str
    description: str
    violations: int
    examples: Sequence[str]
    unchecked: Sequence[str] = ()


Check = Callable[[], Awaitable[Sequence[Invariant]]]


class InvariantQueries:
    """An invariants.sql whose queries answer `violations` and `examples`; their comments are the descriptions."""

    def __init__(self, path: Path) -> None:
        self.names, self.queries = query_names(path), load_queries(path)

    async def check(self, connection: asyncpg.Connection) -> list[Invariant]:
        """All of them, in the order of the file; also those that fail, and why."""
        return [await self._check(connection, name) for name in self.names]

    async def _check(self, connection: asyncpg.Connection, name: str) -> Invariant:
        query: Any = getattr(self.queries, name)
        description = inspect.cleandoc(query.__doc__ or "")
        try:
            async with connection.transaction(readonly=True):
                await connection.execute(WHOLE_TABLES)
                row = await connection.fetchrow(PLANNED_ANEW.format(query.sql.rstrip("; \n")), 1)
        except asyncpg.PostgresError as error:
            if connection.is_closed():
                raise
            return Invariant(name, description, 0, (), (describe_failure(error),))
        return Invariant(name, description, row["violations"], row["examples"] or ())


def describe_failure(error: Exception) -> str:
    """Of a check that could not be made, in a line."""
    return f"{type(error).__name__}: {error}"[:FAILURE_LETTERS]


def invariant_service(check: Check) -> tuple[ServiceDescriptor, Callable[[Any, Any], None], "InvariantAdminServicer"]:
    """For `Server.add`."""
    service = pb.DESCRIPTOR.services_by_name["InvariantAdminService"]
    return service, invariant_pb2_grpc.add_InvariantAdminServiceServicer_to_server, InvariantAdminServicer(check)


class InvariantAdminServicer(invariant_pb2_grpc.InvariantAdminServiceServicer):
    """One service's promises, for operators and the simulator."""

    def __init__(self, check: Check) -> None:
        self.check = check

    async def CheckInvariants(self, request: pb.CheckInvariantsRequest, context: Any) -> pb.CheckInvariantsResponse:
        return pb.CheckInvariantsResponse(invariants=map(_message, await self.check()))


def _message(invariant: Invariant) -> pb.Invariant:
    """Nobody is told 0 of what is not known."""
    unknown = invariant.unchecked and not invariant.violations
    return pb.Invariant(
        name=invariant.name,
        description=invariant.description,
        violations=UNKNOWN if unknown else invariant.violations,
        examples=invariant.examples[:MOST_EXAMPLES],
        unchecked=invariant.unchecked,
    )
