#!/usr/bin/env python3
"""Schemathesis with the openapi.json of a running pair: no request causes a server error, and each
answer matches its schema.

A request that is valid for the schema may still be refused (the context is limited, and some
fields exclude others), so that is not a failure; accepting an invalid request is.

  schemathesis_test.py SOURCE_DIR BINARY_DIR
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from packages import need_packages, version
from processes import Processes, small_pair
from serving import ServedPair

need_packages("schemathesis")

EXAMPLES = 40  # per operation


def main():
    binaries = pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        address = ServedPair(processes, binaries, small_pair(binaries)).http
        done = subprocess.run(
            [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()",
             "run", f"http://{address}/openapi.json", "--generation-deterministic", "-n",
             str(EXAMPLES), "--exclude-checks", "positive_data_acceptance",
             "--suppress-health-check", "all", "--request-timeout", "60",
             "--continue-on-failure", "--no-color", "--output-truncate", "false"],
            cwd=folder, env={**os.environ, "COLUMNS": "160"}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout
        tested = [line.strip() for line in done.stdout.splitlines() if "generated" in line]
    print(f"{version('schemathesis')}: {'; '.join(tested)}")


if __name__ == "__main__":
    main()
