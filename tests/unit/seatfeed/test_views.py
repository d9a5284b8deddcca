"""One event's picture, and what its subscribers are told."""

import pytest

from services.seatfeed.errors import SectionNotFound
from services.seatfeed.picture import Picture
from services.seatfeed.rows import Delta, Head, Seat, SeatChange, Standing, StoredPicture, Update
from services.seatfeed.views import View, parse_watermark, watermark_of

OPEN, HELD, TAKEN = Standing.OPEN, Standing.HELD, Standing.TAKEN


class Listener:
    def deliver(self, update: Update) -> None:
        raise AssertionError("a view only names who must be told")


def make_view() -> View:
    """Seats 1 and 2 in A, 3 in B, all open, as of LSN 10."""
    seats = {1: Seat("A", OPEN), 2: Seat("A", OPEN), 3: Seat("B", OPEN)}
    return View(Head("e", 1, 10, 0), StoredPicture(1, 10, seats))


def sell(view: View, seat_id: int, section: str, lsn: int, standing: Standing = TAKEN) -> None:
    change = SeatChange(seat_id, section, standing, shown=standing is TAKEN)
    view.advance(Head("e", view.seq + 1, lsn, view.seq), Delta(view.lsn, lsn, (change,)))


def test_watermarks_are_ordered_as_text() -> None:
    assert watermark_of("e", 0xFF) < watermark_of("e", 0x100)
    assert parse_watermark(watermark_of("e", 0x16B3748)) == ("e", 0x16B3748)


@pytest.mark.parametrize("text", ["", "e", "e.1", "e.00000000016B3748", "e.000000000016b3748", "e.-00000000016b374"])
def test_a_watermark_of_another_form_is_none(text: str) -> None:
    assert parse_watermark(text) is None


def test_a_client_with_a_snapshot_goes_on_from_any_recent_watermark() -> None:
    view = make_view()
    sell(view, 1, "A", 20)
    sell(view, 3, "B", 30)
    first = view.first_update("A")
    assert (first.prev, first.watermark) == (watermark_of("e", 10), watermark_of("e", 30))
    assert first.seats == ((1, TAKEN),)
    assert [tuple(counts) for counts in first.sections] == [("A", 1, 0, 1), ("B", 0, 0, 1)]
    assert view.first_update("A") is first  # made once for all


def test_resume_sends_what_was_missed_and_no_more() -> None:
    view = make_view()
    sell(view, 1, "A", 20)
    sell(view, 2, "A", 30)
    missed = view.resume(watermark_of("e", 20), "A")
    assert missed is not None
    assert missed.seats == ((2, TAKEN),)
    assert missed.prev == watermark_of("e", 20)
    assert view.resume(watermark_of("e", 30), "A") is None
    assert view.resume(watermark_of("e", 40), "A") is None  # it saw more than this process has


@pytest.mark.parametrize("last_seen", [watermark_of("other", 20), watermark_of("e", 5), "nonsense"])
def test_resume_from_elsewhere_is_a_resync(last_seen: str) -> None:
    view = make_view()
    sell(view, 1, "A", 20)
    told = view.resume(last_seen, "")
    assert told is not None
    assert told.resync


def test_watermarks_that_were_never_given_out_are_resyncs_and_fill_no_memory() -> None:
    view = make_view()
    sell(view, 1, "A", 1000)
    for lsn in range(11, 1000):
        told = view.resume(watermark_of("e", lsn), "A")
        assert told is not None
        assert told.resync
    assert view._updates == {}


def test_what_is_no_longer_kept_cannot_be_resumed() -> None:
    view = make_view()
    sell(view, 1, "A", 20)
    sell(view, 2, "A", 30)
    view.forget(20)
    told = view.resume(watermark_of("e", 10), "")
    assert told is not None
    assert told.resync


def test_deltas_that_do_not_lead_to_the_picture_are_not_remembered() -> None:
    view = make_view()
    change = SeatChange(1, "A", TAKEN, shown=True)
    view.remember([Delta(3, 5, (change,)), Delta(6, 8, (change,)), Delta(8, 10, (change,))], 0)
    assert [delta.lsn for delta in view.recent] == [8, 10]
    view.remember([Delta(3, 5, (change,))], 0)
    assert view.recent == []
    view.remember([Delta(3, 5, (change,)), Delta(5, 8, reset=True), Delta(8, 10, (change,))], 0)
    assert [delta.lsn for delta in view.recent] == [10]


def test_a_held_seat_is_never_shown() -> None:
    view = make_view()
    sell(view, 1, "A", 20, HELD)
    assert view.first_update("A").seats == ()
    assert dict(view.snapshot("A").seats) == {1: OPEN, 2: OPEN}
    assert view.snapshot("A").sections[0] == ("A", 1, 1, 0)


def test_one_snapshot_and_one_update_serve_all_until_the_next_tick() -> None:
    view = make_view()
    snapshot = view.snapshot("")
    assert view.snapshot("") is snapshot
    view.subscribe("", Listener())
    view.subscribe("", Listener())
    sell(view, 1, "A", 20)
    assert view.snapshot("") is not snapshot
    first, second = (update for _, update in view.deliveries(10))
    assert first is second


def test_an_unknown_section_is_refused() -> None:
    view = make_view()
    with pytest.raises(SectionNotFound):
        view.snapshot("Z")
    with pytest.raises(SectionNotFound):
        view.subscribe("Z", Listener())
    assert view.subscribers == {}


def test_nobody_is_left_behind_after_the_last_unsubscribes() -> None:
    view = make_view()
    listener = Listener()
    view.subscribe("A", listener)
    view.unsubscribe("A", listener)
    view.unsubscribe("A", listener)
    assert view.subscribers == {}


def test_picture_says_what_changed() -> None:
    picture = Picture({1: Seat("A", OPEN)})
    assert picture.put(1, Seat("A", OPEN)) is None
    assert picture.put(1, Seat("A", HELD)) == SeatChange(1, "A", HELD, shown=False)
    assert picture.put(1, Seat("A", TAKEN)) == SeatChange(1, "A", TAKEN, shown=True)
    assert picture.put(1, Seat("B", TAKEN)) == SeatChange(1, "B", TAKEN, shown=True)
    assert picture.all_counts() == (("B", 0, 0, 1),) == picture.recount()
    assert picture.put(1, None) == SeatChange(1, "B", TAKEN, shown=True)
    assert picture.put(1, None) is None
    assert picture.all_counts() == ()
