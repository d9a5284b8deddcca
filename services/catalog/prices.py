"""What an event costs: a tier for each of the plan's categories, and one for each area."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chassis.errors import InvalidArgument
from services.catalog.errors import TierMissing
from services.catalog.rows import Area, PlanCategories, Tier
from services.catalog.texts import required, within

LARGEST_AMOUNT = 1_000_000_000_000  # minor units: a seat for ten billion is a typing error in any currency
MOST_AREAS, LARGEST_AREA = 1_000, 1_000_000  # of an event; units of an area: what booking takes
LONGEST_AREA_NAME = 60  # characters: it is printed on a ticket, like a section
CURRENCY_CODE = re.compile("[A-Z]{3}")
AREA_COLORS = ("#6D4C41", "#00695C", "#4527A0", "#AD1457", "#37474F")


@dataclass(frozen=True, slots=True)
class Amount:
    """A price and its fee. An empty fee currency means no fee."""

    currency_code: str
    price_minor: int
    fee_currency_code: str
    fee_minor: int


@dataclass(frozen=True, slots=True)
class Price:
    """What a category costs at an event."""

    category: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class AreaDraft:
    """An area as an organiser asks for it."""

    name: str
    capacity: int
    amount: Amount


@dataclass(frozen=True, slots=True)
class Priced:
    """Everything that is for sale, in one currency. Tiers 1 to n are the plan's categories, the areas' follow."""

    currency_code: str
    tiers: tuple[Tier, ...]
    areas: tuple[Area, ...]


def price_event(prices: Sequence[Price], drafts: Sequence[AreaDraft], plan: PlanCategories) -> Priced:
    """Refuses with TIER_MISSING, INVALID_ARGUMENT."""
    currency = _currency([price.amount for price in prices] + [draft.amount for draft in drafts])
    tiers = _category_tiers(prices, plan)
    areas = _areas(drafts, len(tiers))
    area_tiers = [
        _tier("areas", area.tier, area.name, draft.amount, AREA_COLORS[(area.area_id - 1) % len(AREA_COLORS)])
        for area, draft in zip(areas, drafts, strict=True)
    ]
    return Priced(currency, (*tiers, *area_tiers), areas)


def _currency(amounts: Sequence[Amount]) -> str:
    currencies = {amount.currency_code for amount in amounts} | {amount.fee_currency_code for amount in amounts} - {""}
    if len(currencies) > 1 or not all(CURRENCY_CODE.fullmatch(currency) for currency in currencies):
        raise InvalidArgument("Prices and fees are in one currency, three capital letters like EUR.", field="prices")
    return currencies.pop() if currencies else ""


def _category_tiers(prices: Sequence[Price], plan: PlanCategories) -> list[Tier]:
    by_category = {price.category: price for price in prices}
    if len(by_category) < len(prices):
        raise InvalidArgument("A category has two prices.", field="prices")
    unknown = by_category.keys() - set(plan.categories)
    if unknown:
        raise InvalidArgument(f"The plan has no category {', '.join(sorted(unknown))}.", field="prices")
    missing = [category for category in plan.categories if category not in by_category]
    if missing:
        raise TierMissing(missing)
    return [
        _tier("prices", number, category, by_category[category].amount, color)
        for number, (category, color) in enumerate(zip(plan.categories, plan.colors, strict=True), 1)
    ]


def _areas(drafts: Sequence[AreaDraft], tiers_before: int) -> tuple[Area, ...]:
    if len(drafts) > MOST_AREAS:
        raise InvalidArgument(f"An event has at most {MOST_AREAS:,} areas.", field="areas")
    areas = tuple(
        Area(
            number,
            required("areas.name", draft.name, LONGEST_AREA_NAME),
            within("areas.capacity", draft.capacity, LARGEST_AREA),
            tiers_before + number,
        )
        for number, draft in enumerate(drafts, 1)
    )
    if len({area.name for area in areas}) < len(areas):
        raise InvalidArgument("Two areas have the same name.", field="areas")
    return areas


def _tier(field: str, number: int, name: str, amount: Amount, color: str) -> Tier:
    price = within(f"{field}.price", amount.price_minor, LARGEST_AMOUNT, least=0)
    fee = within(f"{field}.fee", amount.fee_minor, LARGEST_AMOUNT, least=0)
    return Tier(number, name, price, fee, color)
