"""What a person does on the page, by what they see: names and roles, not the page's inner parts."""

import re

from playwright.async_api import Locator, Page, expect

from tests.e2e.browser.events import Sale

PATIENCE_MS = 20_000


class Person:
    """Somebody at a browser, with an address to sign in by."""

    def __init__(self, page: Page, email: str) -> None:
        self.page, self.email = page, email
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def seat(self, row: int, seat: int) -> Locator:
        return self.page.get_by_label(f"Row {row}, seat {seat},")

    async def sees(self, text: str) -> None:
        await expect(self.page.get_by_text(text).first).to_be_visible(timeout=PATIENCE_MS)

    async def sign_in(self) -> None:
        """From a page that asks for it, through the issuer's form and back."""
        await self.page.get_by_role("main").get_by_role("button", name="Sign in").click()
        await self.page.get_by_label("E-mail address").fill(self.email)
        await self.page.get_by_role("button", name="Sign in").click()

    async def reach_seats(self, sale: Sale) -> None:
        """Signed in, through the line, in front of the list of seats."""
        await self.page.goto(sale.step("line"))
        await self.sign_in()
        await self.button("Seat list").click()
        await expect(self.seat(1, 1)).to_be_visible(timeout=PATIENCE_MS)

    async def hold(self, *seats: tuple[int, int]) -> None:
        """Chooses seats by (row, seat), each once the map says that it is open, and asks to hold them."""
        for row, seat in seats:
            await expect(self.seat(row, seat)).to_have_accessible_name(re.compile("open$"), timeout=PATIENCE_MS)
            await self.seat(row, seat).click()
        await self.page.get_by_role("button", name="Hold ").click()

    async def pay(self, way: str) -> None:
        await self.page.get_by_label("Way to pay").select_option(label=way)
        await self.page.get_by_role("button", name="Pay ").click()

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        root = "document.documentElement"
        width: int = await self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
        return width
