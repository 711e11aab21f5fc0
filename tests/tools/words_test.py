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
            if (path.suffix not in SUFFIXES or "synthesis" in parts
                    or path == pathlib.Path(__file__)):
                continue
            yield path


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = {word: [] for word in LEFT}
    any_word = re.compile(rf"\b({'|'.join(LEFT)})\b", re.IGNORECASE)
    lines = 0
    for path in sources(root):
        text = path.read_text(encoding="utf-8")
        lines += text.count("\n")
        if not any_word.search(text):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for word in any_word.findall(NOT_COUNTED.sub("", line)):
                found[word.lower()].append(f"{path.relative_to(root)}:{number}")
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
