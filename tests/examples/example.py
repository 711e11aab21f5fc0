"""Runs a program of examples/."""

import subprocess
import sys


def run(source, name, *arguments):
    """What it prints: standard output, standard error."""
    return run_program(sys.executable, "-B", source / "examples" / name, *arguments)


def run_program(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, (command, done)
    return done.stdout, done.stderr
