"""Units of an area, and the best seats that are left; and an order that is cancelled."""

import pytest
from playwright.async_api import expect

from tests.e2e.browser.conftest import Arrive, Publish

pytestmark = pytest.mark.browser

PHONE = (360, 780)
A_DAY = 24 * 60 * 60


async def test_stands_and_then_cancels_on_a_phone(arrive: Arrive, sale: Publish) -> None:
    event = await sale(standing=30, cancel_seconds=A_DAY)
    fan = await arrive(PHONE)
    await fan.page.goto(event.step("line"))
    await fan.sign_in()
    await fan.button("How many for Standing: one more").click()
    assert await fan.overflow() <= 0
    await fan.button("Hold 2 for Standing").click()
    await fan.sees("2 × NOK 500.00")
    await fan.pay("Visa (succeeds)")
    await fan.sees("Your tickets are below")
    await expect(fan.page.get_by_role("img", name="QR code of a ticket for Standing")).to_have_count(2)
    await fan.button("Cancel this order").click()
    await expect(fan.button("Keep it")).to_be_focused()
    await fan.page.keyboard.press("Enter")
    await expect(fan.button("Cancel this order")).to_be_visible()
    await fan.button("Cancel this order").click()
    assert await fan.overflow() <= 0
    await fan.button("Yes, cancel it").click()
    await fan.sees("Its tickets open nothing any more")
    await expect(fan.button("Cancel this order")).to_have_count(0)


async def test_takes_the_best_where_nobody_picks(arrive: Arrive, sale: Publish) -> None:
    event = await sale(best_available_only=True)
    fan = await arrive()
    await fan.page.goto(event.step("line"))
    await fan.sign_in()
    await expect(fan.page.get_by_role("heading", name="Best seats for me")).to_be_visible()
    await expect(fan.button("Seat list")).to_have_count(0)
    how_many = fan.page.get_by_role("spinbutton", name="How many seats")
    await how_many.focus()
    await fan.page.keyboard.press("ArrowUp")
    await fan.page.keyboard.press("Enter")
    await fan.sees("Held for")
    await expect(fan.page.get_by_role("rowheader", name="row 1, seat")).to_have_count(3)


async def test_an_order_that_may_not_be_cancelled_offers_no_way_to(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive()
    await fan.reach_seats(event)
    await fan.hold((1, 1))
    await fan.pay("Visa (succeeds)")
    await fan.sees("Your tickets are below")
    await expect(fan.button("Cancel this order")).to_have_count(0)
