"""The page is for everybody: by keyboard alone, and on a small phone."""

import pytest
from playwright.async_api import Page

from tests.e2e.browser.conftest import Arrive, Publish
from tests.e2e.browser.person import Person

pytestmark = pytest.mark.browser

SMALL_PHONE = (360, 740)
MOST_TABS = 60
FOCUSED = """
(() => {
  const focused = document.activeElement;
  const reached = focused.tabIndex >= 0;  // not a heading that took the focus when the page changed
  const name = reached ? focused.getAttribute("aria-label") ?? focused.textContent : "";
  return [name, getComputedStyle(focused).outlineStyle];
})()
"""


async def tab_to(page: Page, wanted: str) -> None:
    """Presses Tab until the control of that name has the focus, which can be seen."""
    for _ in range(MOST_TABS):
        await page.keyboard.press("Tab")
        name, outline = await page.evaluate(FOCUSED)
        if wanted in name:
            assert outline != "none", f"the focus on {wanted} is invisible"
            return
    raise AssertionError(f"{MOST_TABS} presses of Tab did not reach {wanted}")


async def test_buys_by_keyboard_alone(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive()
    page = fan.page
    await page.goto(f"/events/{event.event_id}")
    await fan.sees("Tickets")
    await tab_to(page, "Choose seats")
    await page.keyboard.press("Enter")
    await fan.sees("Seats are held for an account")
    await tab_to(page, "Sign in")
    await page.keyboard.press("Enter")
    await fan.sees("This is a sandbox")
    await page.keyboard.type(fan.email)
    await page.keyboard.press("Enter")
    await fan.sees("Live map")
    await tab_to(page, "Seat list")
    await page.keyboard.press("Enter")
    await fan.sees("Arrow keys move between seats")
    await tab_to(page, "Row 1, seat 1,")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        await page.keyboard.press(key)
    assert "Row 2, seat 3," in (await page.evaluate(FOCUSED))[0]
    await page.keyboard.press("Enter")
    await tab_to(page, "Hold 1 seat")
    await page.keyboard.press("Enter")
    await fan.sees("Held for")
    await tab_to(page, "Pay ")
    await page.keyboard.press("Enter")
    await fan.sees("You are going")


async def test_no_page_is_wider_than_a_small_phone(arrive: Arrive, sale: Publish) -> None:
    event = await sale()
    fan = await arrive(SMALL_PHONE)
    await fan.page.goto("/")
    await fan.sees("Find your seat")
    await fits(fan)
    await fan.page.goto(f"/events/{event.event_id}")
    await fan.sees("Tickets")
    await fits(fan)
    await fan.reach_seats(event)
    await fits(fan)
    await fan.button("Map").click()
    await fits(fan)
    await fan.button("Seat list").click()
    await fan.hold((1, 1), (1, 2), (1, 3), (1, 4))
    await fan.sees("Held for")
    await fits(fan)
    await fan.pay("Visa (succeeds)")
    await fan.sees("Your tickets are below")
    await fits(fan)
    await fan.page.get_by_role("link", name="My orders").click()
    await fan.sees("Confirmed")
    await fits(fan)


async def fits(fan: Person) -> None:
    assert await fan.overflow() == 0, fan.page.url
