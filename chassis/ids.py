"""Ids that say what they name and on which shard it lives: `<prefix>_<shard>_<number>`, in Crockford's base 32."""

import re
import secrets

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
PAIRS = [high + low for high in ALPHABET for low in ALPHABET]
PYTHON_DIGITS = str.maketrans(ALPHABET, "0123456789abcdefghijklmnopqrstuv")  # what int() reads in base 32
LONGEST_NUMBER = 26  # letters: 128 bits
FORM = re.compile(rf"([a-z]{{3}})_([a-z][a-z0-9]{{0,15}})_([{ALPHABET}]{{1,{LONGEST_NUMBER}}})")


def format_id(prefix: str, shard: str, number: int) -> str:
    """`format_id("evt", "s1", 7)` is `evt_s1_7`. Numbers are 0 to 2**128 - 1."""
    pairs = []
    while number >= 1024:
        number, pair = divmod(number, 1024)
        pairs.append(PAIRS[pair])
    pairs.append(PAIRS[number] if number >= 32 else ALPHABET[number])
    return f"{prefix}_{shard}_{''.join(reversed(pairs))}"


def parse_id(prefix: str, text: str) -> tuple[str, int] | None:
    """Shard and number; None for anything that `format_id` would not have written, leading zeros included."""
    match = FORM.fullmatch(text)
    if match is None or match[1] != prefix or (match[3][0] == "0" and match[3] != "0"):
        return None
    return match[2], int(match[3].translate(PYTHON_DIGITS), 32)


def random_number() -> int:
    """A positive number of 63 bits, for ids that nobody should be able to count or guess."""
    return secrets.randbelow(2**63 - 1) + 1
