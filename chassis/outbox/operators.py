"""What operators do with outboxes: look, try again, give up, publish again. Payloads never leave by these."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

import asyncpg
import grpc
import structlog

from chassis.errors import InvalidArgument, Refusal
from chassis.ids import format_id, parse_id
from chassis.outbox.keeper import KEEP_SECONDS
from chassis.outbox.statements import queries
from chassis.postgres import acquire
from chassis.queries import affected

PREFIX = "msg"
DEFAULT_PAGE = 100
LARGEST_PAGE = 1000
REPUBLISH_BATCH = 1000  # rows that one statement looks at: far inside any statement_timeout
ON_ITS_WAY = timedelta(minutes=1)  # who asks for the last seven days asked a moment ago

log = structlog.get_logger()


class MessageNotFound(Refusal):
    """No such message, or it is not parked."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.NOT_FOUND
    reason = "MESSAGE_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no parked message of that id.")


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that is not delivered yet, as an operator sees it. `message_id` is `msg_<database>_<number>`."""

    message_id: str
    database: str
    sink: str
    aggregate_id: str
    kind: str
    created_time: datetime
    refusals: int
    last_refusal: str
    parked_time: datetime | None


class Outboxes:
    """The outboxes of a service, one for each of its databases, by name."""

    def __init__(self, pools: Mapping[str, asyncpg.Pool]) -> None:
        self.pools = pools

    async def list_outbox(self, *, parked: bool, page_size: int, page_token: str) -> tuple[list[Entry], str]:
        """Messages that are not delivered yet, database by database, oldest first, and the next page's token."""
        if page_size < 0:
            raise InvalidArgument("page_size must not be negative.")
        names, size = list(self.pools), min(page_size or DEFAULT_PAGE, LARGEST_PAGE)
        first, after = self._after(page_token)
        found: list[Entry] = []
        for name in names[names.index(first) :]:
            found += await self._list(name, after=after, parked=parked, most=size + 1 - len(found))
            after = 0
            if len(found) > size:
                return found[:size], found[size - 1].message_id
        return found, ""

    async def retry_message(self, message_id: str) -> None:
        """Gives a parked message all its tries again. Raises MessageNotFound."""
        pool, number = self._locate(message_id)
        async with acquire(pool, "outbox") as connection:
            if not affected(await queries.retry_message(connection, message_id=number)):
                raise MessageNotFound
        log.warning("message is tried again", message=message_id)

    async def drop_message(self, message_id: str) -> None:
        """Deletes a parked message, so that later ones of its aggregate go on. Raises MessageNotFound."""
        pool, number = self._locate(message_id)
        async with acquire(pool, "outbox") as connection:
            row = await queries.drop_message(connection, message_id=number)
        if row is None:
            raise MessageNotFound
        log.warning("message dropped", message=message_id, **row)

    async def republish(self, sink: str, start_time: datetime) -> int:
        """Publishes again what was written for a sink since then and published already; how many. May be repeated."""
        return sum([await self._republish(pool, sink, start_time) for pool in self.pools.values()])

    async def _list(self, name: str, *, after: int, parked: bool, most: int) -> list[Entry]:
        query = queries.list_parked if parked else queries.list_messages
        async with acquire(self.pools[name], "outbox") as connection:
            rows = [row async for row in query(connection, after=after, most=most)]
        return [
            Entry(**{**row, "message_id": format_id(PREFIX, name, row["message_id"]), "database": name}) for row in rows
        ]

    async def _republish(self, pool: asyncpg.Pool, sink: str, start_time: datetime) -> int:
        async with acquire(pool, "outbox") as connection:
            now = await queries.now(connection)
        if start_time < now - timedelta(seconds=KEEP_SECONDS) - ON_ITS_WAY:
            raise InvalidArgument("Messages are kept for seven days: start_time must not be earlier.")
        last: dict[str, object] = {"after_time": start_time, "after_id": 0}  # ids begin at 1
        total = 0
        while True:
            async with acquire(pool, "outbox") as connection:
                batch = await queries.republish(
                    connection, sink=sink, start_time=start_time, asked_time=now, **last, most=REPUBLISH_BATCH
                )
            total += int(batch["messages"])
            if batch["rows"] < REPUBLISH_BATCH:
                return total
            last = {"after_time": batch["last_time"], "after_id": batch["last_id"]}

    def _after(self, page_token: str) -> tuple[str, int]:
        if not page_token:
            return next(iter(self.pools)), 0
        found = self._parse(page_token)
        if found is None:
            raise InvalidArgument("page_token is not one of ours.")
        return found

    def _locate(self, message_id: str) -> tuple[asyncpg.Pool, int]:
        found = self._parse(message_id)
        if found is None:
            raise MessageNotFound
        return self.pools[found[0]], found[1]

    def _parse(self, message_id: str) -> tuple[str, int] | None:
        found = parse_id(PREFIX, message_id)
        return found if found and found[0] in self.pools and found[1] < 2**63 else None
