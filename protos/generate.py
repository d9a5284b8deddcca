"""Makes gen/rowlock from the protos: typed stubs whose import path is the proto path, and the descriptor image.

`make protos` and the build call it. Nothing is written when nothing changed: each file is replaced only if it differs.
"""

import filecmp
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

PROTOS = Path(__file__).parent
GENERATED = PROTOS.parent / "gen"
IMAGE = Path("rowlock") / "image.binpb"


def main() -> None:
    """Exits with protoc's status when a proto is wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        (made / "rowlock").mkdir()
        compile_protos(made)
        make_packages(made / "rowlock")
        replace_changed(made, GENERATED)


def compile_protos(out: Path) -> None:
    google = resources.files("google.rpc").joinpath("..").resolve().parent  # type: ignore[attr-defined]
    sources = sorted(str(path) for path in PROTOS.rglob("*.proto"))
    plugins = Path(sys.executable).parent
    status = protoc.main(
        [
            "protoc",
            f"-I{PROTOS}",
            f"-I{google}",
            f"-I{resources.files('grpc_tools').joinpath('_proto')}",
            f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            f"--mypy_grpc_out=quiet:{out}",
            "--include_imports",
            "--include_source_info",
            f"--descriptor_set_out={out / IMAGE}",
            *sources,
        ]
    )
    if status:
        raise SystemExit(status)


def make_packages(root: Path) -> None:
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        (directory / "__init__.py").touch()
    (root / "py.typed").touch()


def replace_changed(source: Path, target: Path) -> None:
    made = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    for path in made:
        destination = target / path
        if not destination.exists() or not filecmp.cmp(source / path, destination, shallow=False):
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / path, destination)
    if (target / "rowlock").exists():
        for path in (target / "rowlock").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.relative_to(target) not in made:
                path.unlink()


if __name__ == "__main__":
    main()
