"""`python -m sandbox.issuer`: signs anybody in. For the embedded stack only."""

import uvicorn

from chassis.settings import load_settings
from sandbox.issuer.app import make_app
from sandbox.issuer.grants import Grants
from sandbox.issuer.keys import Keys
from sandbox.issuer.settings import IssuerSettings


def main() -> None:
    settings = load_settings(IssuerSettings)
    keys = Keys.open(settings.state)
    app = make_app(url=settings.url, origins=settings.client_origins, keys=keys, grants=Grants())
    host, _, port = settings.listen.rpartition(":")
    uvicorn.run(app, host=host, port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
