"""The report of one on-sale: a single HTML file without scripts or outside parts."""

import json
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

from onsale.checks import Verdict
from onsale.fans import Seen
from onsale.gateway import Measured
from onsale.settings import Options
from onsale.venue import Sale

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fbfaf7; --line: #d9d4c7; --good: #1d6b45; --bad: #a3271f }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e4da; --paper: #14181f; --line: #39404c; --good: #6fcf97;
  --bad: #ff8a80 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem } .good { color: var(--good) } .bad { color: var(--bad) }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
"""


def write_report(
    options: Options, sale: Sale, summary: dict[str, Any], verdict: Verdict, seen: Seen, measured: Measured
) -> None:
    """To `options.report`, whole or not at all."""
    broken = verdict.broken()
    headline = (
        '<p class="good"><strong>Every promise was kept.</strong></p>'
        if not broken
        else f'<p class="bad"><strong>{len(broken)} promises broke.</strong></p>{_list(broken)}'
    )
    parts = [
        f"<h1>{escape(sale.name)}</h1>",
        f"<p>{options.fans} fans, {sale.seat_count} seats, {sale.line_capacity} inside at once,"
        f" seed {options.seed}.</p>",
        headline,
        "<h2>Result</h2>",
        _table(["", ""], [(name.replace("_", " "), value) for name, value in summary.items()]),
        "<h2>Seats and orders</h2>",
        _table(["Seats", "Count"], [(name.replace("_", " "), n) for name, n in verdict.seats.items()]),
        _table(
            ["Orders", "Count"],
            [(name.removeprefix("ORDER_STATE_").lower().replace("_", " "), n) for name, n in verdict.orders.items()],
        ),
        "<h2>How it ended for the fans</h2>",
        _table(["Ending", "Fans"], Counter(seen.endings).most_common()),
        *_areas(verdict),
        "<h2>Calls</h2>",
        _table(
            ["Call", "Answers", "p50 ms", "p99 ms", "Statuses", "Refusals"],
            [_call(each, measured) for each in measured.seconds],
        ),
        "<h2>Promises</h2>",
        "<p>Asked of every service after the sale. Double sales, double charges and lost orders are counted above, from"
        " what the fans were told, the orders, and the processor's ledger.</p>",
        _table(
            ["Service", "Check", "Broken", "What a broken one means"],
            [(service, name, n, words) for service, name, n, words in verdict.invariants],
        ),
        f"<details><summary>As JSON</summary><pre>{escape(json.dumps(summary))}</pre></details>",
    ]
    text = f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">\
<title>{escape(sale.name)}</title><style>{STYLE}</style><body>{"".join(parts)}</body></html>\n'
    replace_file(options.report, text)


def replace_file(path: Path, text: str) -> None:
    """Writes beside, then renames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.replace(path)


def _areas(verdict: Verdict) -> list[str]:
    return [
        f"<h2>Area {area}</h2>" + _table(["Units", "Count"], [(name.replace("_", " "), n) for name, n in units.items()])
        for area, units in verdict.areas.items()
    ]


def _call(name: str, measured: Measured) -> tuple[Any, ...]:
    return (
        name,
        len(measured.seconds[name]),
        round(measured.percentile(name, 0.5), 1),
        round(measured.percentile(name, 0.99), 1),
        ", ".join(f"{status or 'no answer'} × {n}" for status, n in sorted(measured.statuses[name].items())),
        ", ".join(f"{reason} × {n}" for reason, n in measured.reasons[name].most_common()),
    )


def _table(head: list[str], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return "<p>None.</p>"
    heads = "".join(f"<th{_aligned(cell)}>{escape(each)}</th>" for each, cell in zip(head, rows[0], strict=True))
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{heads}</tr>{body}</table></div>'


def _cell(value: Any) -> str:
    return f"<td{_aligned(value)}>{escape(str(value))}</td>"


def _aligned(value: Any) -> str:
    return ' class="n"' if isinstance(value, int | float) else ""


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines[:200]) + "</ul>"
