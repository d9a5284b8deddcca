"""How a sale is run: defaults for what was not said, bounds for what was."""

from datetime import datetime, timedelta

from chassis.errors import InvalidArgument
from services.catalog.rows import SaleRules
from services.catalog.texts import within

DEFAULT_TICKETS_PER_ACCOUNT, MOST_TICKETS_PER_ACCOUNT = 8, 50  # 50 seats are the most of one hold
DEFAULT_HOLD_SECONDS, DEFAULT_ONSALE_HOLD_SECONDS, LONGEST_HOLD_SECONDS = 600, 120, 3_600
LONGEST_WINDOW_SECONDS = 7 * 86_400  # a window of more than a week is no rush any more
DEFAULT_HOLDS_PER_ACCOUNT, MOST_HOLDS_PER_ACCOUNT = 20, 10_000  # in ten minutes: nobody presses faster
MOST_CANCEL_SECONDS = 2 * 366 * 86_400  # before the start: more is a typing error
DEFAULT_LINE_CAPACITY, LARGEST_LINE_CAPACITY = 200, 1_000_000


def complete_rules(asked: SaleRules) -> SaleRules:
    """Numbers that are 0 stand for the default, where there is one. Refuses with INVALID_ARGUMENT."""
    return SaleRules(
        tickets_per_account=within(
            "tickets_per_account", asked.tickets_per_account or DEFAULT_TICKETS_PER_ACCOUNT, MOST_TICKETS_PER_ACCOUNT
        ),
        hold_seconds=within("hold_seconds", asked.hold_seconds or DEFAULT_HOLD_SECONDS, LONGEST_HOLD_SECONDS),
        onsale_hold_seconds=within(
            "onsale_hold_seconds", asked.onsale_hold_seconds or DEFAULT_ONSALE_HOLD_SECONDS, LONGEST_HOLD_SECONDS
        ),
        onsale_window_seconds=within(
            "onsale_window_seconds", asked.onsale_window_seconds, LONGEST_WINDOW_SECONDS, least=0
        ),
        best_available_only=asked.best_available_only,
        holds_per_account=within(
            "holds_per_account", asked.holds_per_account or DEFAULT_HOLDS_PER_ACCOUNT, MOST_HOLDS_PER_ACCOUNT
        ),
        no_resale=asked.no_resale,
        cancel_seconds=within("cancel_seconds", asked.cancel_seconds, MOST_CANCEL_SECONDS, least=0),
        line=asked.line,
        line_capacity=within("line_capacity", asked.line_capacity or DEFAULT_LINE_CAPACITY, LARGEST_LINE_CAPACITY),
    )


def cancel_end_time(rules: SaleRules, start: datetime) -> datetime | None:
    """Until when a buyer may cancel; None for never."""
    return start - timedelta(seconds=rules.cancel_seconds) if rules.cancel_seconds else None


def require_time_to_cancel(rules: SaleRules, start: datetime, sale_start: datetime) -> None:
    """Who may cancel has a moment to do so. Refuses with INVALID_ARGUMENT."""
    end = cancel_end_time(rules, start)
    if end is not None and end <= sale_start:
        raise InvalidArgument("Cancelling would end before the sale starts.", field="cancel_seconds")
