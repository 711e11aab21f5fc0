"""What the tests with other people's clients share: an interpreter that has them, and a pair that serves them."""

import importlib.metadata
import importlib.util
import os
import re
import sys

from processes import SKIPPED

INTERPRETER = "OUTRIDER_TEST_PYTHON"  # of a virtual environment with tests/requirements.txt


def need_packages(*names):
    """Goes on under $OUTRIDER_TEST_PYTHON if this interpreter lacks a package; else skips, with a word why."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    other = os.environ.get(INTERPRETER, "")
    if other not in ("", sys.executable):
        sys.stdout.flush()
        os.execv(other, [other, "-B", *sys.argv])
    print(f"skipped: {', '.join(missing)} is not installed in {sys.executable}; see tests/requirements.txt")
    sys.exit(SKIPPED)


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


# A sampled request with a seed waits for its drafts, so that some come however busy the machine is.
DRAFTED = {"speculation": {"rule": "block", "draft_length": 4}, "temperature": 1, "seed": 3}


class ServedPair:
    """A verifier with its HTTP port, and its drafter, which drafts whatever that costs; `processes` ends both."""

    def __init__(self, processes, binaries, models, *flags):
        line = processes.start("verifier", [
            binaries / "outrider-verifier", "--model", models / "target", "--listen", "127.0.0.1:0", "--metrics", "",
            "--policy", "fixed", "--http", "127.0.0.1:0", *flags], await_line="http_port=").line
        self.grpc = "127.0.0.1:" + re.search(r" port=(\d+)", line).group(1)
        self.http = "127.0.0.1:" + re.search(r"http_port=(\d+)", line).group(1)
        processes.start("drafter", [
            binaries / "outrider-drafter", "--model", models / "drafter", "--verifier", self.grpc, "--metrics", ""],
            await_line=" attached ")
