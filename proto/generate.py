"""Generates `remuda_proto` from proto/**/*.proto: messages, type stubs, and the gRPC service of si.v1.

    python proto/generate.py [OUTPUT_DIRECTORY | --check]

The output directory defaults to this one. `--check` writes nothing: it fails if the code here is not what is generated.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTOS = sorted(p.relative_to(HERE).as_posix() for p in HERE.rglob("*.proto"))
# protoc writes absolute imports from the root of its output; ours is a package of its own.
IMPORT = re.compile(
    r"^(from|import) ((?:si|remuda|mesos)\.v1|remuda\.resmgr\.v1|peloton\.(?:api|private))\b", re.MULTILINE
)
STUB_NAME = re.compile(
    r"(?<![\w.])((?:si|remuda|mesos)\.v1\.\w+_pb2|remuda\.resmgr\.v1\.\w+_pb2|peloton\.(?:api|private)\.[\w.]+_pb2)\b"
)


def generate(target: Path) -> None:
    package = target / "remuda_proto"
    package.mkdir(parents=True, exist_ok=True)
    bundled = Path(grpc_tools.__file__).parent / "_proto"
    binaries = Path(sys.executable).parent
    code = protoc.main(
        [
            "protoc",
            f"-I{HERE}",
            f"-I{bundled}",
            f"--plugin=protoc-gen-mypy={binaries / 'protoc-gen-mypy'}",
            f"--python_out={package}",
            f"--mypy_out=quiet:{package}",
            *PROTOS,
        ]
    )
    if code:
        raise SystemExit(code)
    services = [p for p in PROTOS if re.search(r"^service ", (HERE / p).read_text(), re.MULTILINE)]
    code = protoc.main(["protoc", f"-I{HERE}", f"-I{bundled}", f"--grpc_python_out={package}", *services])
    if code:
        raise SystemExit(code)
    for path in sorted([*package.rglob("*_pb2*.py"), *package.rglob("*_pb2*.pyi")]):
        text = IMPORT.sub(r"\1 remuda_proto.\2", path.read_text())
        if path.suffix == ".pyi":
            text = STUB_NAME.sub(r"remuda_proto.\1", text)
        path.write_text(text)
    for directory in (package, *(p for p in package.rglob("*") if p.is_dir() and p.name != "__pycache__")):
        init = directory / "__init__.py"
        if not init.exists():
            init.write_text("")


def check() -> int:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh, ours = (_generated(root / "remuda_proto") for root in (Path(folder), HERE))
    stale = sorted(path for path in fresh.keys() | ours.keys() if fresh.get(path) != ours.get(path))
    for path in stale:
        print(f"proto/remuda_proto/{path} is not what `make proto` generates")
    return int(bool(stale))


def _generated(package: Path) -> dict[str, bytes]:
    paths = [path for pattern in ("*_pb2*.py", "*_pb2*.pyi") for path in package.rglob(pattern)]
    return {path.relative_to(package).as_posix(): path.read_bytes() for path in paths}


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    generate(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE)
