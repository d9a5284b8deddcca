"""From looking for an event to holding a ticket."""

import re

import pytest
from playwright.async_api import Route, expect

from tests.e2e.browser.conftest import Arrive, Publish

pytestmark = pytest.mark.browser


async def test_buys_a_ticket_from_search_to_qr_code(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive()
    await fan.page.goto("/")
    await fan.page.get_by_label("Event, artist or venue").fill(event.name)
    await fan.page.get_by_role("link", name=event.name).click()
    await fan.sees("Local time in Oslo")
    await fan.page.get_by_role("link", name="Choose seats").click()
    await fan.sign_in()
    await fan.button("Seat list").click()
    await fan.hold((2, 4), (2, 5))
    await fan.sees("Held for")
    await fan.pay("Visa (succeeds)")
    await fan.sees("You are going")
    codes = fan.page.get_by_role("img", name="QR code of row 2, seat")
    await expect(codes).to_have_count(2)
    await fan.page.get_by_role("link", name="My orders").click()
    await fan.sees("Confirmed")


async def test_the_line_lets_in_by_itself(arrive: Arrive, sale: Publish) -> None:
    event = await sale(line=True)
    fan = await arrive()
    await fan.page.goto(f"/events/{event.event_id}")
    await fan.page.get_by_role("link", name="Join the line").click()
    await fan.sign_in()
    await fan.sees("Live map")
    await fan.page.reload()
    await fan.sees("Live map")


async def test_the_second_of_two_is_told_which_seat_went(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    first, second = await arrive(), await arrive()
    for fan in (first, second):
        await fan.reach_seats(event)
    await second.seat(1, 3).click()
    await first.hold((1, 3))
    await first.sees("Held for")
    await second.page.get_by_role("button", name="Hold ").click()
    words = second.page.get_by_role("alert")
    await expect(words).to_contain_text("Somebody else was faster")
    await expect(words).to_contain_text("row 1, seat 3 is gone")
    await second.hold((1, 4))
    await second.sees("Held for")


async def test_a_declined_card_gives_the_seats_back(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive()
    await fan.reach_seats(event)
    await fan.hold((1, 1))
    await fan.pay("Declined card")
    await fan.sees("The bank declined the card. Nothing was charged")
    other = await arrive()
    await other.reach_seats(event)
    await other.hold((1, 1))
    await other.sees("Held for")


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive()
    keys: list[str] = []

    async def drop_the_first_answer(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.fetch()  # it arrives and is decided; only the answer is lost
            await route.abort()
        else:
            await route.continue_()

    await fan.page.route("**/holds", drop_the_first_answer)
    await fan.reach_seats(event)
    await fan.hold((3, 1))
    await fan.sees("Held for")
    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_a_hold_survives_a_reload_and_ends_by_the_servers_clock(arrive: Arrive, sale: Publish) -> None:
    event = await sale(hold_seconds=15)
    fan = await arrive()
    await fan.reach_seats(event)
    await fan.hold((1, 7))
    await fan.sees("Held for")
    await fan.page.reload()
    await fan.sees("Held for")
    await fan.sees("The time for these seats ran out")


async def test_says_when_the_map_is_not_live(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive()
    await fan.page.route("**/updates*", lambda route: route.abort())
    await fan.reach_seats(event)
    await fan.sees("Connecting again; the map is")
    await fan.page.unroute("**/updates*")
    await fan.sees("Live map")


async def test_an_event_that_the_feed_does_not_know_yet_is_waited_for(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive()
    asked: list[str] = []

    async def come_too_early(route: Route) -> None:
        asked.append(route.request.url)
        unknown = route.request.url.replace(event.event_id, "evt_s1_zzz")
        await route.continue_(url=unknown) if len(asked) < 3 else await route.continue_()

    await fan.page.route(re.compile(r"/v1/events/[^/]+/seats"), come_too_early)
    await fan.reach_seats(event)
    await fan.sees("Live map")
    assert len(asked) >= 3
    assert not await fan.page.get_by_text("There is no such event").is_visible()


async def test_the_map_shows_what_others_buy(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    watcher, buyer = await arrive(), await arrive()
    for fan in (watcher, buyer):
        await fan.reach_seats(event)
    await watcher.sees("Live map")
    await buyer.hold((2, 9))
    await buyer.pay("Visa (succeeds)")
    await buyer.sees("You are going")
    await expect(watcher.page.get_by_label("Row 2, seat 9, ")).to_have_attribute("aria-disabled", "true")
