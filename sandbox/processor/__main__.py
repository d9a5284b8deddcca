"""`python -m sandbox.processor`."""

import structlog
import uvicorn

from chassis.settings import load_settings
from chassis.telemetry import configure_logs
from sandbox.processor.ledger import Ledger
from sandbox.processor.server import build_app
from sandbox.processor.settings import ProcessorSettings

CONNECTIONS = 512  # at once; one more is answered 503, as an overloaded processor would
KEEP_ALIVE_SECONDS = 75  # longer than clients keep an idle connection: none is cut just as a request leaves on it


def main() -> None:
    """Serves until SIGTERM or SIGINT."""
    settings = load_settings(ProcessorSettings)
    configure_logs(settings.log_level)
    ledger = Ledger(settings.ledger)
    host, _, port = settings.listen.rpartition(":")
    config = uvicorn.Config(
        build_app(ledger, settings.api_key.get_secret_value()),
        host=host,
        port=int(port),
        loop="uvloop",
        access_log=False,
        log_level="warning",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=5,
    )
    listener = config.bind_socket()
    listener.listen(CONNECTIONS)  # before the line below: who reads it may connect at once
    structlog.get_logger().info("listening", service="processor", port=listener.getsockname()[1])
    uvicorn.Server(config).run([listener])
    ledger.close()


if __name__ == "__main__":
    main()
