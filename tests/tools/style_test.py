#!/usr/bin/env python3
"""Holds the names of tests to six words, and lines of Python and of pages to 100 columns.

A word of a C++ test's name begins with a capital letter; words of a Python test's name are divided
by underscores. Tables, indented code and pictures of a page may be wider.

  style_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import re
import sys

MOST_WORDS = 6
CPP_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
PYTHON_TEST = re.compile(r"^\s*(?:async )?def test_(\w+)\(", re.MULTILINE)
WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z][a-z0-9]*|[a-z0-9]+")

MOST_COLUMNS = 100
FOLDERS = ("client", "deploy", "examples", "scripts", "tests", "tools")
PAGES = ("*.md", "docs/*.md", "examples/*.md", "client/python/*.md", "models/default/*.md",
         "tools/training/*.md")
# Data that other line breaks would change.
WIDE = {"tests/common/text/jinja/snippets.py", "tools/training/synthesis/story_words.py"}


def test_names(root):
    """The place, the name and the words of every test."""
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in (".cc", ".h"):
            for suite, name in CPP_TEST.findall(path.read_text(encoding="utf-8")):
                yield path, f"{suite}.{name}", WORD.findall(name)
        elif path.suffix == ".py":
            for name in PYTHON_TEST.findall(path.read_text(encoding="utf-8")):
                yield path, f"test_{name}", name.split("_")


def python_lines(root):
    """The place and the text of every line of Python."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            place = str(path.relative_to(root))
            if place not in WIDE:
                for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
                    yield f"{place}:{number}", line


def page_lines(root):
    """The place and the text of every line of a page that can be wrapped."""
    for path in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if not line.startswith(("|", "    ", "![")):
                yield f"{path.relative_to(root)}:{number}", line


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    names = list(test_names(root))
    assert len(names) > 2000, f"only {len(names)} tests were found"
    long = [(path, name) for path, name, words in names if len(words) > MOST_WORDS]
    for path, name in long:
        print(f"{path.relative_to(root)}: {name} has more than {MOST_WORDS} words; say what is "
              "specific about the case")
    lines = list(python_lines(root))
    assert len(lines) > 10000, f"only {len(lines)} lines of Python were found"
    paragraphs = list(page_lines(root))
    assert len(paragraphs) > 2000, f"only {len(paragraphs)} lines of pages were found"
    wide = [(place, len(line)) for place, line in (*lines, *paragraphs)
            if len(line) > MOST_COLUMNS]
    for place, columns in wide:
        print(f"{place}: {columns} columns, at most {MOST_COLUMNS}")
    return 1 if long or wide else 0


if __name__ == "__main__":
    sys.exit(main())
