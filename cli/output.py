"""What is printed: a table for people, or JSON for programs; never both."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Table

NARROWEST = 100  # columns when the output is no terminal: ids must stay whole, they are copied from here

errors = Console(stderr=True)


def print_json(content: Any) -> None:
    """Messages as the contract's JSON, everything else as it is."""
    print(json.dumps(_plain(content), indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Cells are printed as they are; the first column never breaks."""
    table = Table(title=title, title_justify="left", highlight=False)
    for index, column in enumerate(columns):
        table.add_column(column, no_wrap=index == 0, overflow="fold")
    for row in rows:
        table.add_row(*(_escaped(cell) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=max(NARROWEST, Console().width))
    console.print(table)


@contextmanager
def working(what: str, *, quiet: bool) -> Iterator[None]:
    """Says on stderr what takes long, while it does and if somebody looks."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with errors.status(what):
        yield


def print_error(message: str, details: Sequence[str] = ()) -> None:
    """One sentence, then the lines that belong to it."""
    print(message, file=sys.stderr)
    for line in details:
        print(f"  {line}", file=sys.stderr)


def _plain(content: Any) -> Any:
    if isinstance(content, Message):
        return MessageToDict(content, always_print_fields_with_no_presence=True)
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(item) for item in content]
    return content


def _escaped(cell: object) -> str:
    return str(cell).replace("[", r"\[")
