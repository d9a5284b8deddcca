"""PgBouncer in transaction mode between the services and Postgres, when ROWLOCK_TEST_POOLER is set."""

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from stack.engines import as_servant
from tests.support import engines

POOLED = bool(os.environ.get("ROWLOCK_TEST_POOLER"))
SESSIONS = 12  # of a database: fewer than two bookings have connections, so that they share

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={postgres} {options}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users.txt
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 1000
server_idle_timeout = 5
server_login_retry = 1
"""


class Pooler:
    """Where services go instead of the server of a DSN."""

    def __init__(self, server: str, address: str) -> None:
        self.server, self.address = server, address

    def between(self, dsn: str) -> str:
        """The same database through the pooler; what leads elsewhere, as through a slow line, is left alone."""
        parts = urlsplit(dsn)
        user, _, host = parts.netloc.rpartition("@")
        if host != self.server:
            return dsn
        return urlunsplit((parts.scheme, f"{user}@{self.address}", parts.path, parts.query, ""))


def start(scratch: Path, postgres: str, name: str = "pgbouncer", options: str = "") -> Pooler:
    """Starts it if this run has none of this name. Without ROWLOCK_TEST_POOLER the way leads straight to the server.

    `options`: of every database, as `connect_query='…'`.
    """
    server = urlsplit(postgres).netloc.rpartition("@")[2]
    if not POOLED:
        return Pooler(server, server)
    port = engines.start_once(
        scratch, name, lambda data, port: _command(data, port, server, options), engines.answers_postgres
    )
    return Pooler(server, f"127.0.0.1:{port}")


def _command(data: Path, port: int, server: str, options: str) -> list[str]:
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise RuntimeError("There is no pgbouncer: on Debian, `apt-get install pgbouncer`.")
    data.mkdir(mode=0o755)
    (data / "users.txt").write_text('"app" ""\n"postgres" ""\n')
    configuration = data / "pgbouncer.ini"
    values = {"postgres": server.rpartition(":")[2], "options": options, "sessions": SESSIONS}
    configuration.write_text(CONFIGURATION.format(port=port, directory=data, **values))
    return [*as_servant(data), program, "--quiet", str(configuration)]
