"""Shared by tests in Python: checks for tools that may be missing, and processes that end with the
test."""

import pathlib
import shutil
import subprocess
import sys
import time

SKIPPED = 77  # the exit code that ctest counts as skipped

# Seconds that tests wait for what must happen: only a test that fails waits so long, however busy
# the machine is. Below the TIMEOUT of a test (cmake/OutriderTargets.cmake), so that it can still
# say what it waited for.
TIME_LIMIT = 300


def need(*programs):
    """Skips the test, and says why, unless all programs are installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not installed")
        sys.exit(SKIPPED)


def small_pair(binaries):
    """The folder with `target` and `drafter` for tests that need any small pair
    (make_small_pair.cc)."""
    return binaries.parent / "tests" / "small_pair"


class Processes:
    """Starts processes with their logs in `folder`; on exit, ends those that are still running."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name, argv, await_line=None):
        """Starts a process. With `await_line`, waits until a log line contains that text and stores
        the line as `line`."""
        path = self.folder / f"{name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log)
        self.running.append(process)
        until = time.monotonic() + TIME_LIMIT
        while await_line is not None:
            for line in path.read_text().splitlines():
                if await_line in line:
                    process.line = line
                    return process
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} did not start:\n{path.read_text()}")
            time.sleep(0.02)
        return process
