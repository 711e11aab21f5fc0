"""The pages of the project, and what its programs say of their flags."""

import functools
import re
import subprocess


def pages_of(source):
    return [*(source / name for name in ("client/python/README.md", "examples/README.md")),
            *sorted(source.glob("*.md")), *sorted((source / "docs").glob("*.md"))]


@functools.cache
def help_of(*command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout


def subcommands_in(help_text):
    _, _, listed = help_text.partition("ubcommands:")
    return re.findall(r"^  ([a-z][a-z-]+)\s", listed, re.M)


def flags_in(text):
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text))
