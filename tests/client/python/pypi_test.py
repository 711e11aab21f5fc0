#!/usr/bin/env python3
"""The unit and pair tests again, with the grpcio and protobuf of tests/requirements.txt instead of
Debian's.

  pypi_test.py SOURCE_DIR BINARY_DIR
"""

import os
import pathlib
import subprocess
import sys

from packages import INTERPRETER
from processes import SKIPPED


def main():
    python = os.environ.get(INTERPRETER, "")
    if not python or subprocess.run([python, "-c",
                                     "import grpc"], capture_output=True,
                                    check=False).returncode != 0:
        print(f"skipped: ${INTERPRETER} names no interpreter with grpcio; see "
              "tests/requirements.txt")
        sys.exit(SKIPPED)
    for script in ("unit_test.py", "pair_test.py"):
        subprocess.run([python, "-B", pathlib.Path(__file__).parent / script, *sys.argv[1:]],
                       check=True)


if __name__ == "__main__":
    main()
