"""Accounts that talk to a gateway over HTTP, as a browser would, and events for them to fight over."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import grpc
from google.protobuf import timestamp_pb2
from rowlock.catalog.v1 import catalog_pb2, catalog_pb2_grpc
from rowlock.money.v1 import money_pb2

from tests.support.plans import plan_of


@dataclass(frozen=True)
class Answer:
    """A response, read whole."""

    status: int
    body: dict[str, Any]
    text: str

    @property
    def reason(self) -> str:
        return next((each["reason"] for each in self.body.get("details", []) if "reason" in each), "")

    @property
    def metadata(self) -> dict[str, str]:
        return next((each["metadata"] for each in self.body.get("details", []) if "metadata" in each), {})


class Gateway:
    """One session to one gateway."""

    def __init__(self, endpoints: dict[str, Any], session: aiohttp.ClientSession) -> None:
        self.endpoints, self.session = endpoints, session

    async def call(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None, raw: bytes | None = None
    ) -> Answer:
        """Sends once, whatever comes of it."""
        url = self.endpoints["gateway"] + path
        data: dict[str, Any] = {"data": raw} if raw is not None else {"json": body}
        async with self.session.request(method, url, headers=headers or {}, **data) as response:
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            return Answer(response.status, await response.json() if is_json else {}, text)

    async def accounts(self, count: int) -> list["Account"]:
        """New accounts, signed in."""
        body = {"account": f"buyer-{uuid.uuid4().hex[:10]}", "count": count}
        async with self.session.post(f"{self.endpoints['issuer']}/sandbox/tokens", json=body) as response:
            response.raise_for_status()
            tokens = (await response.json())["tokens"]
        return [Account(self, each["account"], each["token"]) for each in tokens]

    async def captures(self) -> dict[str, list[int]]:
        """What the processor kept, by order."""
        kept: dict[str, list[int]] = {}
        after = 0
        while True:
            url = f"{self.endpoints['processor']}/sandbox/ledger?after={after}"
            async with self.session.get(url) as response:
                page = await response.json()
            for row in page["rows"]:
                if row["captured"] > row["refunded"]:
                    kept.setdefault(row["orderId"], []).append(row["captured"] - row["refunded"])
            after = page.get("next", 0)
            if not after:
                return kept


class Account:
    """Somebody signed in."""

    def __init__(self, gateway: Gateway, name: str, token: str) -> None:
        self.gateway, self.name = gateway, name
        self.user = {"authorization": f"Bearer {token}"}
        self.queue: dict[str, str] = {}
        self.admission: dict[str, str] = {}

    async def enter(self, event_id: str) -> None:
        """Joins and enters an event without a line."""
        joined = await self.gateway.call("POST", f"/v1/events/{event_id}/waiting-room", self.user, {})
        assert joined.status == 200, joined
        self.queue = {"x-rowlock-queue": joined.body["queueToken"]}
        entered = await self.gateway.call("POST", f"/v1/events/{event_id}/enter", {**self.user, **self.queue}, {})
        assert entered.status == 200, entered
        self.admission = {"x-rowlock-admission": entered.body["admissionToken"]}

    async def hold(self, event_id: str, seats: list[int], key: str = "", query: str = "") -> Answer:
        """One attempt."""
        headers = {**self.user, **self.admission, "idempotency-key": key or uuid.uuid4().hex}
        return await self.gateway.call("POST", f"/v1/events/{event_id}/holds{query}", headers, {"seatIds": seats})

    async def order(self, hold_id: str, token: str = "pm_card_visa", key: str = "") -> Answer:
        """One attempt."""
        headers = {**self.user, "idempotency-key": key or uuid.uuid4().hex}
        return await self.gateway.call("POST", "/v1/orders", headers, {"holdId": hold_id, "paymentToken": token})

    async def get(self, path: str) -> Answer:
        """With the user token."""
        return await self.gateway.call("GET", path, self.user)


async def publish_event(
    catalog: str, seats: int, *, hold_seconds: int = 120, line: bool = False
) -> tuple[str, list[int]]:
    """A new event that is on sale now; its id and its seats."""
    async with grpc.aio.insecure_channel(catalog) as channel:
        admin = catalog_pb2_grpc.CatalogAdminServiceStub(channel)
        venue = catalog_pb2.Venue(name=f"Test hall of {seats}", city="Oslo", country_code="NO", time_zone="Europe/Oslo")
        imported = await admin.ImportVenue(
            catalog_pb2.ImportVenueRequest(venue=venue, pretix_plan=plan_of(seats)), timeout=30
        )
        price = money_pb2.Money(currency_code="NOK", amount_minor=50_000)
        fee = money_pb2.Money(currency_code="NOK", amount_minor=2_000)
        created = await admin.CreateEvent(
            catalog_pb2.CreateEventRequest(
                request_id=uuid.uuid4().hex,
                name="Race night",
                performer="The Fast",
                venue_id=imported.venue_id,
                start_time=_at(timedelta(days=10)),
                sale_start_time=_at(timedelta(minutes=-5)),
                prices=[catalog_pb2.CategoryPrice(category=each, price=price, fee=fee) for each in imported.categories],
                rules=catalog_pb2.SaleRules(hold_seconds=hold_seconds, line=line, line_capacity=100),
            ),
            timeout=30,
        )
        event_id = created.event.event_id
        await admin.PublishEvent(catalog_pb2.PublishEventRequest(event_id=event_id), timeout=30)
        public = catalog_pb2_grpc.CatalogServiceStub(channel)
        plan = await public.GetEventPlan(catalog_pb2.GetEventPlanRequest(event_id=event_id), timeout=30)
    return event_id, [seat.seat_id for each in plan.plan.sections for row in each.rows for seat in row.seats]


def _at(delta: timedelta) -> timestamp_pb2.Timestamp:
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(datetime.now(UTC) + delta)
    return stamp
