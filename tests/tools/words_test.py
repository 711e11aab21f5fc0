#!/usr/bin/env python3
"""Holds the project to its glossary: words that it has left behind stay away.

Each word may occur ten times, where nothing else will do. Machine-read names (flags, the fields of
the contract, keys of `simulate --json`), names of laws, and the generated texts of tools/training
do not count.

  words_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import re
import sys

LEFT = {
    "law": "distribution",
    "behind": "after",
    "stands": "is, is accepted",
    "anew": "again",
    "comes by": "is accepted",
    "likeliest": "most likely",
    "whoever": "the one that",
}
MOST = 10
FOLDERS = ("client", "cmake", "common", "deploy", "docs", "drafter", "examples", "proto", "scripts",
           "simulate", "tests", "tools", "verifier")
SUFFIXES = {".cc", ".cmake", ".cu", ".cuh", ".h", ".html", ".md", ".proto", ".py", ".sh", ".txt",
            ".yaml", ".yml"}
NOT_COUNTED = re.compile(r"--[\w-]*law[\w-]*|(Little|Zipf)'s law|look-behind|reverse proxy")


def sources(root):
    yield from root.glob("*.md")
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            if path.suffix not in SUFFIXES or "synthesis" in parts or path == pathlib.Path(__file__):
                continue
            yield path


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = {word: [] for word in LEFT}
    patterns = {word: re.compile(rf"\b{word}\b", re.IGNORECASE) for word in LEFT}
    lines = 0
    for path in sources(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            lines += 1
            line = NOT_COUNTED.sub("", line)
            for word, pattern in patterns.items():
                found[word] += [f"{path.relative_to(root)}:{number}"] * len(pattern.findall(line))
    assert lines > 100000, f"only {lines} lines were read"
    failed = False
    for word, places in found.items():
        print(f"{word}: {len(places)}")
        if len(places) > MOST:
            failed = True
            print(f"  more than {MOST}: say {LEFT[word]}\n  " + "\n  ".join(places))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
