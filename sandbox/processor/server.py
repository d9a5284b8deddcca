"""The API: bearer key, idempotency keys, Stripe's shapes; and the ledger, which is ours."""

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.processor import intents
from sandbox.processor.faults import Fault, invalid_param, key_in_use, key_reused, no_such, not_authorised
from sandbox.processor.forms import Form, fingerprint, read_form
from sandbox.processor.intents import Intent, Outcome
from sandbox.processor.ledger import Ledger

LONGEST_KEY = 255  # characters, Stripe's limit
LEDGER_PAGE = 1000  # rows when `limit` is not given
LARGEST_LEDGER_PAGE = 10_000  # about 2 MB of JSON and 40 ms

Work = Callable[[Request, Form], Awaitable[Outcome]]


class Processor:
    """Handlers. A call's effect and its answer are stored together, with no `await` between deciding and storing."""

    def __init__(self, ledger: Ledger, api_key: str) -> None:
        self.ledger = ledger
        self.secret = api_key.encode()
        self.under_way: set[str] = set()

    async def create(self, _request: Request, form: Form) -> Outcome:
        return intents.create(form, int(time.time()))

    async def confirm(self, request: Request, form: Form) -> Outcome:
        delay = intents.delay_of(self._intent(request), form)
        if delay:
            await asyncio.sleep(delay)
        return intents.confirm(self._intent(request), form, int(time.time()))

    async def cancel(self, request: Request, form: Form) -> Outcome:
        return intents.cancel(self._intent(request), form, int(time.time()))

    async def retrieve(self, request: Request) -> Response:
        self._authorise(request)
        return answer(json.dumps(self._intent(request)), 200, new_request_id())

    def post(self, work: Work) -> Callable[[Request], Awaitable[Response]]:
        """The handler of a call that changes something, once for each Idempotency-Key."""

        async def handle(request: Request) -> Response:
            self._authorise(request)
            form = await read_form(request)
            key, print_ = key_of(request), fingerprint(request.url.path, form)
            if key in self.under_way:
                raise key_in_use(key)
            if key and (stored := self.ledger.find_answer(key)):
                if stored.fingerprint != print_:
                    raise key_reused(key)
                replayed = {"Idempotent-Replayed": "true", "Original-Request": stored.request_id}
                return answer(stored.body, stored.status, new_request_id(), key, **replayed)
            return await self._first(request, form, work, key, print_)

        return handle

    async def list_ledger(self, request: Request) -> Response:
        """`?after=` a sequence, `?limit=`, `?orderId=`; `next` is what to send as `after`, absent on the last page."""
        limit = number(request, "limit", LEDGER_PAGE, 1, LARGEST_LEDGER_PAGE)
        after = number(request, "after", 0, 0, 2**62)
        order_id = request.query_params.get("orderId", "")
        rows = self.ledger.list_captures(after=after, limit=limit, order_id=order_id)
        page: dict[str, Any] = {"rows": rows}
        if len(rows) == limit:
            page["next"] = rows[-1]["sequence"]
        return JSONResponse(page)

    async def check_health(self, _request: Request) -> Response:
        return JSONResponse({"status": "serving"})

    async def _first(self, request: Request, form: Form, work: Work, key: str, print_: str) -> Response:
        if key:
            self.under_way.add(key)
        try:
            outcome, request_id = await work(request, form), new_request_id()
            body = self.ledger.record(outcome, key=key, fingerprint=print_, request_id=request_id)
        finally:
            self.under_way.discard(key)
        return answer(body, outcome.status, request_id, key)

    def _intent(self, request: Request) -> Intent:
        name = request.path_params["intent"]
        intent = self.ledger.find_intent(name)
        if intent is None:
            raise no_such("payment_intent", name, param="intent", status=404)
        return intent

    def _authorise(self, request: Request) -> None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.encode(), self.secret):
            raise not_authorised()


def build_app(ledger: Ledger, api_key: str) -> Starlette:
    processor = Processor(ledger, api_key)
    routes = [
        Route("/v1/payment_intents", processor.post(processor.create), methods=["POST"]),
        Route("/v1/payment_intents/{intent}", processor.retrieve, methods=["GET"]),
        Route("/v1/payment_intents/{intent}/confirm", processor.post(processor.confirm), methods=["POST"]),
        Route("/v1/payment_intents/{intent}/cancel", processor.post(processor.cancel), methods=["POST"]),
        Route("/sandbox/ledger", processor.list_ledger, methods=["GET"]),
        Route("/sandbox/health", processor.check_health, methods=["GET"]),
    ]
    handlers = {Fault: answer_fault, HTTPException: answer_no_route, ClientDisconnect: answer_nobody}
    return Starlette(routes=routes, exception_handlers=handlers)


def answer(body: str, status: int, request_id: str, key: str = "", **headers: str) -> Response:
    if key:
        headers["Idempotency-Key"] = key
    return Response(body, status, {"Request-Id": request_id, **headers}, "application/json")


async def answer_fault(_request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Fault)
    return JSONResponse(fault.body, fault.status, {"Request-Id": new_request_id()})


async def answer_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"Unrecognized request URL ({request.method}: {request.url.path})."
    return await answer_fault(request, Fault(error.status_code, message))


async def answer_nobody(_request: Request, _error: Exception) -> Response:
    """The caller went away before its request was whole, so nothing was done."""
    return Response(status_code=400)


def key_of(request: Request) -> str:
    key = request.headers.get("idempotency-key", "")
    if len(key) > LONGEST_KEY:
        raise Fault(400, f"Idempotency keys have at most {LONGEST_KEY} characters.", kind="idempotency_error")
    return key


def number(request: Request, name: str, default: int, least: int, most: int) -> int:
    value = request.query_params.get(name, str(default))
    if not value.isascii() or not value.isdigit() or len(value) > 20 or not least <= int(value) <= most:
        raise invalid_param(name, f"{name} must be a whole number from {least} to {most}.")
    return int(value)


def new_request_id() -> str:
    return f"req_{secrets.token_hex(7)}"
