"""Which databases and Redis servers the services use: the embedded ones, or those that the environment names.

A service's own variable takes the place of the embedded store: ROWLOCK_CATALOG_DATABASE_URL,
ROWLOCK_PAYMENTS_DATABASE_URL, ROWLOCK_BOOKING_SHARDS together with ROWLOCK_SEATFEED_SHARDS,
ROWLOCK_BOOKING_REDIS_URL, ROWLOCK_WAITINGROOM_REDIS_URL, ROWLOCK_SEATFEED_REDIS_URL. The database and its role must
exist; the stack migrates it. An engine that nobody needs any more is not started.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chassis.settings import parse_shards
from stack.errors import StackError
from stack.keys import Secrets
from stack.ports import Ports

POSTGRES_VARIABLES = ("ROWLOCK_CATALOG_DATABASE_URL", "ROWLOCK_PAYMENTS_DATABASE_URL", "ROWLOCK_BOOKING_SHARDS")
REDIS_VARIABLES = ("ROWLOCK_BOOKING_REDIS_URL", "ROWLOCK_WAITINGROOM_REDIS_URL", "ROWLOCK_SEATFEED_REDIS_URL")


@dataclass(frozen=True)
class Database:
    """One database to migrate: `service`'s, at `url`. `embedded` names it in the embedded Postgres, or is empty."""

    service: str
    url: str
    shard: str = ""
    embedded: str = ""


@dataclass(frozen=True)
class Stores:
    """Everything the services need to know of stores: their variables, and what to prepare first."""

    databases: tuple[Database, ...]
    variables: Mapping[str, str]
    needs_postgres: bool
    needs_valkey: bool


def choose_stores(shards: str, secrets: Secrets, ports: Ports, environment: Mapping[str, str]) -> Stores:
    """The stores of a stack, from its settings and the environment."""
    if bool(environment.get("ROWLOCK_BOOKING_SHARDS")) != bool(environment.get("ROWLOCK_SEATFEED_SHARDS")):
        raise StackError(
            "ROWLOCK_BOOKING_SHARDS and ROWLOCK_SEATFEED_SHARDS name the same databases, for two roles: set both, "
            "or none."
        )
    valkey = f"redis://:{secrets.valkey_password}@{ports.address('valkey')}"
    variables = {
        "ROWLOCK_CATALOG_DATABASE_URL": _url("catalog", secrets.catalog_password, ports, "catalog"),
        "ROWLOCK_PAYMENTS_DATABASE_URL": _url("payments", secrets.payments_password, ports, "payments"),
        "ROWLOCK_BOOKING_SHARDS": _shards("booking", secrets.booking_password, ports, shards),
        "ROWLOCK_SEATFEED_SHARDS": _shards("seatfeed", secrets.seatfeed_password, ports, shards),
        "ROWLOCK_WAITINGROOM_REDIS_URL": f"{valkey}/0",
        "ROWLOCK_SEATFEED_REDIS_URL": f"{valkey}/1",  # a store of its own, as it would be with three servers
        "ROWLOCK_BOOKING_REDIS_URL": f"{valkey}/2",
    }
    given = {name: environment[name] for name in variables if environment.get(name)}
    chosen = {**variables, **given}
    try:
        dsns = parse_shards(chosen["ROWLOCK_BOOKING_SHARDS"])
    except ValueError as error:
        raise StackError(f"ROWLOCK_BOOKING_SHARDS: {error}.") from None
    return Stores(
        databases=_databases(chosen, given, dsns),
        variables={**chosen, "ROWLOCK_CATALOG_SHARDS": ",".join(dsns)},
        needs_postgres=any(name not in given for name in POSTGRES_VARIABLES),
        needs_valkey=any(name not in given for name in REDIS_VARIABLES),
    )


def _databases(chosen: Mapping[str, str], given: Mapping[str, str], dsns: Mapping[str, str]) -> tuple[Database, ...]:
    found = []
    for service in ("catalog", "payments"):
        variable = f"ROWLOCK_{service.upper()}_DATABASE_URL"
        found.append(Database(service, chosen[variable], embedded="" if variable in given else service))
    for shard, url in dsns.items():
        embedded = "" if "ROWLOCK_BOOKING_SHARDS" in given else f"booking_{shard}"
        found.append(Database("booking", url, shard, embedded))
    return tuple(found)


def _url(role: str, password: str, ports: Ports, database: str) -> str:
    return f"postgresql://{role}:{password}@{ports.address('postgres')}/{database}"


def _shards(role: str, password: str, ports: Ports, shards: str) -> str:
    return ",".join(f"{shard}={_url(role, password, ports, f'booking_{shard}')}" for shard in shards.split(","))
