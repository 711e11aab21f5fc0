"""Packages that tests need and Debian does not have: those of tests/requirements.txt."""

import importlib.metadata
import importlib.util
import os
import sys

from processes import SKIPPED

INTERPRETER = "OUTRIDER_TEST_PYTHON"  # of a virtual environment with tests/requirements.txt


def need_packages(*names):
    """Goes on under $OUTRIDER_TEST_PYTHON if a package is missing; without that, skips and says
    why."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    other = os.environ.get(INTERPRETER, "")
    if other not in ("", sys.executable):
        sys.stdout.flush()
        os.execv(other, [other, "-B", *sys.argv])
    print(
        f"skipped: {', '.join(missing)} is not installed in {sys.executable}; "
        "see tests/requirements.txt"
    )
    sys.exit(SKIPPED)


def version(package):
    return f"{package} {importlib.metadata.version(package)}"
