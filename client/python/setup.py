"""Generates src/outrider/v1 from the repository's proto/ when the package is built.

A source distribution has no proto/, but the generated files, so that installing it needs no protoc.
"""

import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
FILES = ["outrider/v1/generation.proto", "outrider/v1/drafting.proto"]
HAS_PROTO = all((PROTO / file).exists() for file in FILES)
PLUGIN = shutil.which("grpc_python_plugin")
HAS_PROTOC = shutil.which("protoc") is not None and PLUGIN is not None


def generate():
    """By protoc with gRPC's plugin for Python, or by the same of grpcio-tools."""
    if not HAS_PROTO:
        return
    compiler = [sys.executable, "-m", "grpc_tools.protoc"]
    if HAS_PROTOC:
        compiler = ["protoc", f"--plugin=protoc-gen-grpc_python={PLUGIN}"]
    out = HERE / "src"
    done = subprocess.run([*compiler, f"-I{PROTO}", f"--python_out={out}", f"--pyi_out={out}",
                           f"--grpc_python_out={out}", *FILES],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"outrider: generating code from {PROTO} failed: {done.stderr.strip()}\n"
                         "install protobuf-compiler-grpc (Debian) or grpcio-tools (PyPI)")


class BuildPy(build_py):
    def run(self):
        generate()
        super().run()


class Sdist(sdist):
    def run(self):
        generate()
        super().run()


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist},
      setup_requires=["grpcio-tools"] if HAS_PROTO and not HAS_PROTOC else [])
