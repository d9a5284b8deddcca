"""Named SQL: every statement stands in a .sql file under the same word as the method that runs it."""

import re
from pathlib import Path
from typing import Any

import aiosql


def load_queries(path: Path) -> Any:
    """The statements of a file, as aiosql's methods: `-- name: get_hold^` becomes `queries.get_hold(connection, …)`.

    `queries.get_hold.sql` is the text with $1, $2, …, for hot paths that call the connection themselves.
    """
    return aiosql.from_path(path, "asyncpg")


def query_names(path: Path) -> list[str]:
    """The statements' names in the order of the file; aiosql's own list is sorted."""
    return re.findall(r"^-- name: (\w+)", path.read_text(), re.MULTILINE)


def affected(status: str) -> int:
    """Rows affected, from a command tag: `UPDATE 3` is 3. The verdict of a guarded statement."""
    return int(status.rsplit(" ", 1)[1])
