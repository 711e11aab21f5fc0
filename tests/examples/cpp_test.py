#!/usr/bin/env python3
"""examples/cpp as a project of its own: configured, built, and run against a verifier.

  cpp_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import sys
import tempfile

from example import run_program
from processes import Processes, need, small_pair
from serving import ServedPair

need("cmake", "c++")


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name, Processes(name) as processes:
        build = pathlib.Path(name) / "build"
        run_program("cmake", "-S", source / "examples/cpp", "-B", build, "-D",
                    "CMAKE_BUILD_TYPE=Debug")
        run_program("cmake", "--build", build)
        address = ServedPair(processes, binaries, small_pair(binaries)).grpc
        text, note = run_program(build / "example_generate", address)
        assert text.strip() and "draft tokens accepted]" in note, (text, note)
    print("examples/cpp builds and runs by itself")


if __name__ == "__main__":
    main()
