"""Best available against a slow reference that lists every possibility, on random halls."""

from itertools import combinations, pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.booking.best_available import candidates, largest
from services.booking.rows import Ask
from services.booking.seat_plan import Block, Plan
from tests.support.steps import at_once
from tests.unit.booking.halls import DEPTH, PITCH, free_but, hall

RULER = "oooooooooooo"  # in each section, so that the usual distance is that of neighbours

Seat = tuple[int, int, int, str]  # id, row, column (an aisle takes one, too), letter
Question = tuple[list[str], str, tuple[int, int] | None, set[int], Ask]  # rows, tiers, focal point, taken seats, ask


@st.composite
def drawn_rows(draw: st.DrawFn) -> list[str]:
    rows = []
    for section in draw(st.sampled_from([["A"], ["A", "B"]])):
        rows.append(f"{section}:{RULER}")
        for _ in range(draw(st.integers(0, 3))):
            text = draw(st.text("ooooooac ", min_size=1, max_size=9)).strip()
            rows.append(f"{section}:{' '.join(text.split()) or 'o'}")
    return rows


@st.composite
def questions(draw: st.DrawFn) -> Question:
    rows = draw(drawn_rows())
    count = sum(len(row.partition(":")[2].replace(" ", "")) for row in rows)
    tiers = draw(st.lists(st.sampled_from("1112"), min_size=count, max_size=count))
    focal = draw(st.none() | st.tuples(st.integers(-50, 250), st.integers(-100, 250)))
    share = draw(st.sampled_from([0.0, 0.3, 0.6, 0.9]))
    dice = draw(st.randoms(use_true_random=False))
    taken = {seat for seat in range(1, count + 1) if dice.random() < share}
    quantity = draw(st.integers(1, 9))
    ask = Ask(
        quantity,
        section=draw(st.sampled_from(["", "A"])),
        tier=draw(st.sampled_from([None, None, 1, 2])),
        accessible=draw(st.sampled_from([0, 0, 0, 1, 2])) if quantity > 1 else 0,
    )
    return rows, "".join(tiers), focal, taken, ask


class Reference:
    """Everything by hand: seats with columns, two of them neighbours when nothing is between them."""

    def __init__(self, rows: list[str], tiers: str, focal: tuple[int, int] | None, taken: set[int], ask: Ask) -> None:
        self.focal, self.ask = focal, ask
        self.rows: list[list[Seat]] = []
        number = 0
        for index, row in enumerate(rows):
            _section, _, drawing = row.partition(":")
            self.rows.append([])
            for column, letter in enumerate(drawing):
                if letter == " ":
                    continue
                number += 1
                self.rows[-1].append((number, index, column, letter))
        self.free = set(range(1, number + 1)) - taken
        self.asked = {
            seat[0]
            for row, text in zip(self.rows, rows, strict=True)
            for seat in row
            if ask.section in ("", text.partition(":")[0]) and ask.tier in (None, int(tiers[seat[0] - 1]))
        }

    def usable(self, seat: Seat) -> bool:
        return seat[0] in self.free & self.asked and (seat[3] == "o" or self.ask.accessible > 0)

    def together(self, seats: list[Seat]) -> bool:
        return all(right[2] - left[2] == 1 for left, right in pairwise(seats))

    def proper(self, seats: list[Seat], accessible: int) -> bool:
        letters = [seat[3] for seat in seats]
        return letters.count("a") == accessible and all(
            letter != "c" or "a" in letters[max(place - 1, 0) : place + 2] for place, letter in enumerate(letters)
        )

    def strands(self, row: list[Seat], first: int, size: int) -> bool:
        return self._stretch(row, first - 1, -1) == 1 or self._stretch(row, first + size, 1) == 1

    def _stretch(self, row: list[Seat], place: int, step: int) -> int:
        """Free seats in one go from a place on, beside the party."""
        length = 0
        while 0 <= place < len(row) and row[place][0] in self.free and abs(row[place][2] - row[place - step][2]) == 1:
            length, place = length + 1, place + step
        return length

    def windows(self, *, stranding: bool) -> list[tuple[float, int, int, list[int]]]:
        """All blocks for the whole party: how far, row, place, seats."""
        size, found = self.ask.quantity, []
        for index, row in enumerate(self.rows):
            for first in range(len(row) - size + 1):
                seats = row[first : first + size]
                if (
                    all(map(self.usable, seats))
                    and self.together(seats)
                    and self.proper(seats, self.ask.accessible)
                    and (stranding or not self.strands(row, first, size))
                ):
                    found.append((self.distance(seats), index, first, [seat[0] for seat in seats]))
        return sorted(found)

    def distance(self, seats: list[Seat]) -> float:
        if self.focal is None:
            return 0
        x = sum(seat[2] * PITCH for seat in seats) - len(seats) * self.focal[0]
        y = sum(seat[1] * DEPTH for seat in seats) - len(seats) * self.focal[1]
        return x * x + y * y

    def runs(self) -> list[int]:
        """Lengths of the stretches that an ordinary party may use."""
        lengths = []
        for row in self.rows:
            length = 0
            for place, seat in enumerate(row):
                follows = place > 0 and seat[2] - row[place - 1][2] == 1
                if length and not (follows and self.usable(seat)):
                    lengths.append(length)
                    length = 0
                length += self.usable(seat)
            lengths.append(length)
        return [length for length in lengths if length]

    def groups(self) -> tuple[int, bool]:
        """The fewest groups, and whether so many can be had with nobody alone."""
        size, lengths = self.ask.quantity, self.runs()
        for count in range(1, size + 1):
            rooms = [rooms for rooms in combinations(lengths, count) if sum(rooms) >= size]
            if rooms:
                return count, size >= 2 * count and any(min(room) >= 2 for room in rooms)
        raise AssertionError("there are too few seats")

    def seats_of(self, letter: str) -> int:
        return sum(seat[3] == letter and seat[0] in self.free & self.asked for row in self.rows for seat in row)


def _seats(plan: Plan, party: tuple[Block, ...]) -> list[list[int]]:
    return [list(block.seats(plan)) for block in party]


A_COMPANION_IS_NEEDED = (
    ["A:oooooooooooo", "A:aaaaaaaac", "B:oooooooooooo"],
    "111111111222111111122111111111111",
    None,
    set[int](),
    Ask(5, accessible=1, tier=2),
)


@settings(max_examples=300, deadline=None)
@given(questions())
@example(A_COMPANION_IS_NEEDED)
def test_best_available_steps_down_the_ladder_rung_by_rung(question: Question) -> None:
    rows, tiers, focal, taken, ask = question
    plan, reference = hall(*rows, focal=focal, tiers=tiers), Reference(*question)
    free = free_but(plan, taken)
    found = at_once(candidates(plan, free, ask))
    by_id = {seat[0]: (row, place) for row in reference.rows for place, seat in enumerate(row)}
    expected = reference.windows(stranding=False) or reference.windows(stranding=True)
    enough = reference.seats_of("o") >= ask.quantity - ask.accessible and reference.seats_of("a") >= ask.accessible
    if expected:
        assert _seats(plan, found[0]) == [expected[0][3]]
    elif not found:  # companions' seats may make up for what is missing, but need not
        assert not enough
        assert at_once(largest(plan, free, ask)) < ask.quantity
    else:
        groups = _seats(plan, found[0])
        drawn = [[by_id[seat][0][by_id[seat][1]] for seat in group] for group in groups]
        assert len({seat for group in groups for seat in group}) == ask.quantity
        assert all(reference.usable(seat) for group in drawn for seat in group)
        assert all(reference.together(group) for group in drawn)
        assert all(reference.proper(group, sum(seat[3] == "a" for seat in group)) for group in drawn)
        assert sum(seat[3] == "a" for group in drawn for seat in group) == ask.accessible
        if not ask.accessible:
            assert enough
            count, company = reference.groups()
            assert len(groups) == count
            assert not company or min(map(len, groups)) >= 2


@settings(max_examples=300, deadline=None)
@given(questions(), st.integers(2, 8))
def test_several_candidates_are_of_one_rung_in_order_and_share_no_seat(question: Question, most: int) -> None:
    rows, tiers, focal, taken, ask = question
    plan, reference = hall(*rows, focal=focal, tiers=tiers), Reference(*question)
    found = at_once(candidates(plan, free_but(plan, taken), ask, most=most))
    rung = reference.windows(stranding=False) or reference.windows(stranding=True)
    if rung:
        seats = [_seats(plan, party)[0] for party in found]
        known = {tuple(window[3]): window[:3] for window in rung}
        places = [known[tuple(group)] for group in seats]
        assert places[0] == rung[0][:3]
        assert places == sorted(places)
        assert len({seat for group in seats for seat in group}) == len(seats) * ask.quantity
        assert len(seats) <= most
    else:
        assert len(found) <= 1
