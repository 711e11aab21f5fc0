#!/usr/bin/env python3
"""The package as others get it: a wheel of the source tree, a source distribution that needs no
protoc, and the same wheel of it; installed by pip, it can be imported.

  package_test.py SOURCE_DIR BINARY_DIR
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from processes import SKIPPED, need

try:
    import setuptools
    import wheel  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed (Debian: python3-setuptools, python3-wheel)")
    sys.exit(SKIPPED)
need("protoc", "grpc_python_plugin")

USE = """import grpc, outrider
from outrider.v1 import drafting_pb2_grpc, generation_pb2_grpc
print(outrider.__file__)
try:
    outrider.Client("127.0.0.1:1", timeout=5).model()
except outrider.errors.Unavailable as error:
    assert error.code == grpc.StatusCode.UNAVAILABLE, error
else:
    raise SystemExit("who answered?")
"""


def build(kind, project, out, path=None):
    """Calls the back end that pyproject.toml names, as pip does. The built file."""
    out.mkdir(exist_ok=True)
    code = f"import setuptools.build_meta as b, sys; print(b.build_{kind}(sys.argv[1]))"
    environment = dict(os.environ) if path is None else {**os.environ, "PATH": path}
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=project, env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / done.stdout.splitlines()[-1]


def copy_sources(source, folder):
    ignored = shutil.ignore_patterns("*_pb2*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(source / "proto", folder / "proto")
    shutil.copytree(source / "client/python", folder / "client/python", ignore=ignored)
    return folder / "client/python"


def check_version(source, built):
    header = (source / "common/base/version.h").read_text()
    [version] = re.findall(r'kVersion\[\] = "(.+)"', header)
    assert built.name.startswith(
        f"outrider-{version}-"), f"{built.name}, but version.h says {version}"


def files_of(wheel_file):
    with zipfile.ZipFile(wheel_file) as archive:
        return {name: archive.read(name) for name in archive.namelist()
                if ".dist-info/" not in name}


def check_contents(files, staged, metadata):
    expected = {str(path.relative_to(staged))
                for path in staged.rglob("*") if path.suffix in {".py", ".pyi", ".typed"}}
    assert set(files) == expected, set(files) ^ expected
    assert "outrider/py.typed" in files and "outrider/v1/drafting_pb2.pyi" in files
    assert "Requires-Dist: grpcio" in metadata and "Requires-Dist: protobuf" in metadata, metadata


def check_install(wheel_file, folder):
    """grpcio is the system's."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                    wheel_file], check=True)
    used = subprocess.run([python, "-c", USE], cwd=folder, env={"PATH": ""}, capture_output=True,
                          text=True, check=False)
    assert used.returncode == 0 and used.stdout.startswith(str(folder)), used


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        project = copy_sources(source, folder / "tree")
        built = build("wheel", project, folder / "wheel")
        check_version(source, built)
        with zipfile.ZipFile(built) as archive:
            [metadata] = [archive.read(n).decode()
                          for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        check_contents(files_of(built), binaries.parent / "python", metadata)
        with tarfile.open(build("sdist", project, folder / "sdist")) as archive:
            archive.extractall(folder / "unpacked")
        [unpacked] = (folder / "unpacked").iterdir()
        again = build("wheel", unpacked, folder / "again", path="")
        assert files_of(again) == files_of(built), "the source distribution builds another wheel"
        check_install(built, folder / "installed")
    print(f"setuptools {setuptools.__version__}: {built.name}, from the tree and from "
          f"{unpacked.name}.tar.gz")


if __name__ == "__main__":
    main()
