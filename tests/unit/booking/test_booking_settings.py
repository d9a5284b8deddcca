"""The identity of requests, and their bounds."""

import pytest

from chassis.errors import InvalidArgument
from services.booking.errors import IdempotencyKeyRequired
from services.booking.requests import check_account, check_key, check_page_size, fingerprint
from services.booking.rows import EventSales
from services.booking.sales import MOST_EVENTS, Sales


def test_a_fingerprint_tells_contents_apart() -> None:
    assert fingerprint((1, 2)) == fingerprint((1, 2))
    assert len({fingerprint((1, 2)), fingerprint((12,)), fingerprint("a", "b"), fingerprint("ab")}) == 4


def test_requests_are_bounded() -> None:
    check_account("a" * 255)
    check_key("k" * 255)
    for account in ("", "a" * 256, "a\0"):
        with pytest.raises(InvalidArgument):
            check_account(account)
    for key in ("", "k" * 256):
        with pytest.raises(IdempotencyKeyRequired):
            check_key(key)
    assert [check_page_size(size, default=20, most=100) for size in (0, 5, 101)] == [20, 5, 100]
    with pytest.raises(InvalidArgument):
        check_page_size(-1, default=20, most=100)


def test_sales_are_told_once() -> None:
    sales = Sales()
    sales.committed("evt_s1_1")
    sales.committed("evt_s1_1")
    sales.conflicted("evt_s1_2")
    sales.finished("evt_s1_1", "ann")
    assert sales.take() == [EventSales("evt_s1_1", 2, 0, ("ann",)), EventSales("evt_s1_2", 0, 1, ())]
    assert sales.take() == []


def test_a_report_is_bounded() -> None:
    sales = Sales()
    for number in range(MOST_EVENTS + 1):
        sales.committed(f"evt_s1_{number}")
    assert [len(sales.take()), len(sales.take())] == [MOST_EVENTS, 1]
