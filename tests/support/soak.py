"""How much of the seeded suites a run does: a little in `make test`, ROWLOCK_SOAK_SEEDS seeds of it in `make soak`."""

import os

SOAK_SEEDS = int(os.environ.get("ROWLOCK_SOAK_SEEDS", "0"))


def seeds(few: int) -> range:
    """Seeds 1 to `few`; in a soak, to ROWLOCK_SOAK_SEEDS."""
    return range(1, 1 + (SOAK_SEEDS or few))


def size(little: int, soak: int) -> int:
    """Of one seed."""
    return soak if SOAK_SEEDS else little
