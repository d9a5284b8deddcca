from pathlib import Path

from chassis.queries import load_queries, query_names


def test_query_names_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tried.sql"
    file.write_text("-- name: last()\nSELECT 1;\n\n-- name: first(a)^\n-- Says why.\nSELECT :a;\n")
    assert query_names(file) == ["last", "first"]
    assert {"last", "first"} <= set(load_queries(file).available_queries)
