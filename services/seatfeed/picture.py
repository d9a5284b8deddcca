"""The picture of one event: every seat's standing, and the counts that follow from it."""

from collections.abc import Mapping

from services.seatfeed.rows import Counts, Seat, SeatChange, Standing


class Picture:
    """Pure; whoever owns it decides what it is as old as."""

    def __init__(self, seats: Mapping[int, Seat] | None = None) -> None:
        self.section_of: dict[int, str] = {}
        self.sections: dict[str, dict[int, Standing]] = {}
        self._counts: dict[str, dict[Standing, int]] = {}
        for seat_id, seat in (seats or {}).items():
            self.put(seat_id, seat)

    def put(self, seat_id: int, seat: Seat | None) -> SeatChange | None:
        """Sets a seat, or removes it with None. What changed; None when the seat already stood so."""
        section, standing = seat or (None, None)
        old_section = self.section_of.get(seat_id)
        old = self.sections[old_section][seat_id] if old_section is not None else None
        if (section, standing) == (old_section, old):
            return None
        if old_section is not None and old is not None:
            self._remove(seat_id, old_section, old)
        if section is None or standing is None:
            return SeatChange(seat_id, old_section or "", Standing.TAKEN, shown=True)
        self._add(seat_id, section, standing)
        shown = old is None or section != old_section or standing.public is not old.public
        return SeatChange(seat_id, section, standing, shown)

    def counts(self, section: str) -> Counts:
        """All zero for a section that has lost its seats."""
        counted = self._counts.get(section, {})
        return Counts(section, *(counted.get(standing, 0) for standing in Standing))

    def all_counts(self) -> tuple[Counts, ...]:
        """By section, in the order of their names."""
        return tuple(self.counts(section) for section in sorted(self.sections))

    def public_seats(self, section: str) -> tuple[tuple[int, Standing], ...]:
        """Of one section, by seat id."""
        return tuple((seat_id, standing.public) for seat_id, standing in sorted(self.sections[section].items()))

    def recount(self) -> tuple[Counts, ...]:
        """The counts as they must be, from the seats alone: for the invariant."""
        return tuple(
            Counts(section, *(list(seats.values()).count(standing) for standing in Standing))
            for section, seats in sorted(self.sections.items())
        )

    def _remove(self, seat_id: int, section: str, standing: Standing) -> None:
        del self.section_of[seat_id]
        del self.sections[section][seat_id]
        self._counts[section][standing] -= 1
        if not self.sections[section]:
            del self.sections[section], self._counts[section]

    def _add(self, seat_id: int, section: str, standing: Standing) -> None:
        self.section_of[seat_id] = section
        self.sections.setdefault(section, {})[seat_id] = standing
        counted = self._counts.setdefault(section, {})
        counted[standing] = counted.get(standing, 0) + 1
