"""Where the services are: from ROWLOCK_CLI_… variables, else from what the stack wrote down."""

import json
import os
from pathlib import Path

from cli.errors import UNREACHABLE, CliError

SERVICES = ("catalog", "booking", "payments", "waitingroom", "seatfeed")
HOME = Path(".rowlock")


def target_of(service: str) -> str:
    """A gRPC target; over several addresses when the service has replicas.

    ROWLOCK_CLI_CATALOG and its like are `host:port`, or several with commas between them.
    """
    variable = f"ROWLOCK_CLI_{service.upper()}"
    addresses = os.environ.get(variable, "").split(",") if os.environ.get(variable) else _written(service)
    if not addresses:
        raise CliError(
            f"Nobody knows where {service} is: start the stack (make start), or set {variable}=host:port.", UNREACHABLE
        )
    return addresses[0] if len(addresses) == 1 else "ipv4:" + ",".join(address.strip() for address in addresses)


def _written(service: str) -> list[str]:
    file = Path(os.environ.get("ROWLOCK_HOME") or HOME) / "endpoints.json"
    try:
        found = json.loads(file.read_text()).get(service)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, AttributeError) as error:
        raise CliError(f"{file} cannot be read: {error}.") from None
    if isinstance(found, str):
        return [found]
    return [address for address in found if isinstance(address, str)] if isinstance(found, list) else []
