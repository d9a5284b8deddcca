"""`python -m onsale`: runs one sale, checks every promise, writes a report. The last line on stdout is JSON."""

import argparse
import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from onsale.checks import Verdict, judge
from onsale.fans import Fan, Seen
from onsale.gateway import Gateway, Measured, open_session
from onsale.progress import SaleProgress
from onsale.report import write_report
from onsale.settings import MOST_FANS, MOST_SEATS, Addresses, Options, UsageError, find_stack, home
from onsale.venue import Sale, prepare_sale

ARRIVAL_SECONDS = 8.0  # fans join over this time, the last of them as the sale starts
TOKENS_A_REQUEST = 500


def main() -> None:
    """Exit status 1 if a promise broke, 2 if the sale could not be run."""
    options = read_options()
    try:
        addresses = find_stack()
        addresses.require_loopback()
        summary, broken = asyncio.run(run(options, addresses))
    except UsageError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    for line in broken[:50]:
        print(f"BROKEN {line}", file=sys.stderr)
    print(f"Report: {options.report}", file=sys.stderr)
    print(json.dumps(summary))
    raise SystemExit(1 if broken else 0)


def read_options() -> Options:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="onsale", description=__doc__)
    parser.add_argument("--fans", type=int, default=200, help=f"how many fans come, at most {MOST_FANS}")
    parser.add_argument("--seats", type=int, default=120, help="how many seats are sold; ignored with --plan")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same fans")
    parser.add_argument("--units", type=int, default=0, help="units of a standing area sold beside the seats")
    parser.add_argument("--plan", type=Path, help="a seating plan in pretix's JSON; imported with repairs")
    parser.add_argument("--report", type=Path, default=home() / "onsale.html", help="where the report is written")
    parser.add_argument("--seconds", type=float, default=600, help="the run ends by then, whatever happens")
    given = parser.parse_args()
    if not 1 <= given.fans <= MOST_FANS or not 1 <= given.seats <= MOST_SEATS:
        parser.error(f"--fans must be 1 to {MOST_FANS}, --seats 1 to {MOST_SEATS}")
    if not 0 <= given.units <= MOST_SEATS:
        parser.error(f"--units must be 0 to {MOST_SEATS}")
    if given.plan and not given.plan.is_file():
        parser.error(f"{given.plan} is not a file")
    return Options(given.fans, given.seats, given.seed, given.plan, given.report, given.seconds, given.units)


async def run(options: Options, addresses: Addresses) -> tuple[dict[str, Any], list[str]]:
    """The summary, and every broken promise as a line."""
    measured, seen = Measured(), Seen()
    sale = await prepare_sale(addresses.catalog, options, ARRIVAL_SECONDS)
    places = f"{sale.seat_count} seats" + (f" and {sale.unit_count} units" if sale.areas else "")
    print(f"{sale.name}: {options.fans} fans, {places}, {sale.event_id}", file=sys.stderr)
    async with open_session() as session:
        tokens = await sign_in(session, addresses.issuer, options.fans)
        gateway = Gateway(addresses.gateway, session, measured)
        began = time.monotonic()
        await hold_sale(options, sale, gateway, seen, tokens)
        seconds = time.monotonic() - began
    verdict = await judge(addresses, sale, seen)
    summary = summarise(options, sale, seen, measured, verdict, seconds)
    write_report(options, sale, summary, verdict, seen, measured)
    return summary, verdict.broken()


async def sign_in(session: Any, issuer: str, fans: int) -> list[str]:
    """A user token for each fan; new accounts each run, so that no cap of an earlier one counts."""
    run_name, tokens = f"{random.getrandbits(40):010x}", []
    for first in range(0, fans, TOKENS_A_REQUEST):
        count = min(TOKENS_A_REQUEST, fans - first)
        body = {"account": f"fan-{run_name}-{first}", "count": count}
        async with session.post(f"{issuer}/sandbox/tokens", json=body) as response:
            response.raise_for_status()
            tokens += [each["token"] for each in (await response.json())["tokens"]]
    return tokens


async def hold_sale(options: Options, sale: Sale, gateway: Gateway, seen: Seen, tokens: list[str]) -> None:
    """All fans, at once, until the last is done or the time is up."""
    arrivals = random.Random(options.seed)
    fans = [Fan(number, token, sale, gateway, seen, options.seed) for number, token in enumerate(tokens)]
    progress = asyncio.create_task(SaleProgress(options.fans, seen).show())
    try:
        async with asyncio.timeout(options.seconds):
            await asyncio.gather(*(fan.attend(arrivals.uniform(0, ARRIVAL_SECONDS)) for fan in fans))
    except TimeoutError:
        seen.broken.append(f"the sale was not over after {options.seconds:.0f} s")
    finally:
        progress.cancel()
        await asyncio.gather(progress, return_exceptions=True)


def summarise(
    options: Options, sale: Sale, seen: Seen, measured: Measured, verdict: Verdict, seconds: float
) -> dict[str, Any]:
    """The line of JSON. `sold` counts seats and units; `units` is said where there are any."""
    times = sorted(seen.confirmed_times)
    selling = times[-1] - times[0] if len(times) > 1 else seconds
    return {
        "fans": options.fans,
        "seats": sale.seat_count,
        **({"units": sale.unit_count} if sale.areas else {}),
        "sold": verdict.sold,
        "double_sold": len(verdict.double_sold),
        "double_charged": len(verdict.double_charged),
        "lost_orders": len(verdict.lost_orders),
        "conflicts": seen.conflicts,
        "hold_p50_ms": round(measured.percentile("hold", 0.5), 1),
        "hold_p99_ms": round(measured.percentile("hold", 0.99), 1),
        "sold_per_second": round(verdict.sold / max(selling, 1e-9), 1),
        "server_errors": measured.server_errors(),
        "seconds": round(seconds, 1),
        "promises_broken": len(verdict.broken()),
    }


if __name__ == "__main__":
    main()
