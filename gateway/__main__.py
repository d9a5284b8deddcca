"""`python -m gateway render --output FILE`: Envoy's configuration, and the descriptors beside it."""

import argparse
import json
import os
import sys
from pathlib import Path

from chassis.settings import load_settings
from gateway.calls import read_calls, read_image, transcoding_image
from gateway.configuration import configuration
from gateway.settings import GatewaySettings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gateway", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("render", help="write Envoy's configuration from the protos and the environment")
    command.add_argument("--output", type=Path, required=True, help="FILE.json; FILE.binpb is written beside it")
    arguments = parser.parse_args()
    try:
        render(load_settings(GatewaySettings), arguments.output)
    except (OSError, ValueError) as error:
        sys.exit(f"gateway: {error}")


def render(settings: GatewaySettings, output: Path) -> None:
    """Writes the configuration to `output` and the descriptors to the same name with `.binpb`."""
    image = read_image()
    descriptors = output.absolute().with_suffix(".binpb")
    text = json.dumps(configuration(settings, read_calls(image), descriptors), indent=1)
    replace(descriptors, transcoding_image(image))
    replace(output.absolute(), text.encode() + b"\n")


def replace(path: Path, content: bytes) -> None:
    """All or nothing, and readable by its owner alone: the configuration holds signing keys."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    fresh.replace(path)


if __name__ == "__main__":
    main()
