import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.ids import format_id, parse_id


@given(st.integers(0, 2**128 - 1), st.from_regex(r"[a-z][a-z0-9]{0,15}", fullmatch=True))
def test_parse_id_reads_what_format_id_wrote(number: int, shard: str) -> None:
    assert parse_id("evt", format_id("evt", shard, number)) == (shard, number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "evt",
        "evt_s1",
        "evt_s1_",
        "evt_s1_07",
        "hld_s1_7",
        "evt_S1_7",
        "evt_s1_U",
        "evt_s1_7 ",
        "evt_s1_" + "1" * 27,
    ],
)
def test_parse_id_refuses_every_other_text(text: str) -> None:
    assert parse_id("evt", text) is None
