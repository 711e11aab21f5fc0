"""Generates src/outrider/v1 from the repository's proto/ before anything is packed.

A source distribution has no proto/, but the generated files, so that installing it needs no protoc.
"""

import pathlib
import shutil
import subprocess
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
NAMES = ("generation", "drafting")


def compiler():
    """protoc with gRPC's plugin for Python, or the same from grpcio-tools."""
    protoc, plugin = shutil.which("protoc"), shutil.which("grpc_python_plugin")
    if protoc and plugin:
        return [protoc, f"--plugin=protoc-gen-grpc_python={plugin}"]
    return [sys.executable, "-m", "grpc_tools.protoc"]


def generate(out):
    files = [f"outrider/v1/{name}.proto" for name in NAMES]
    command = [*compiler(), f"-I{PROTO}", f"--python_out={out}", f"--pyi_out={out}",
               f"--grpc_python_out={out}", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"outrider: generating code from {PROTO} failed: {done.stderr.strip()}\n"
                         "install protobuf-compiler-grpc (Debian) or grpcio-tools (PyPI)")


if (PROTO / "outrider/v1/generation.proto").exists():
    generate(HERE / "src")
setup()
