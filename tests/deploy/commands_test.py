#!/usr/bin/env python3
"""Each command of ours that a page shows is one that its program takes: the program, its
subcommands and flags, and the files of this repository that it names.

  commands_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import re
import shlex
import sys

from pages import flags_in, help_of, pages_of, subcommands_in

PROGRAMS = {"outrider", "outrider-verifier", "outrider-drafter", "outrider-simulate"}
# Paths below these are in the repository, or made by a build.
FOLDERS = ("client", "deploy", "docs", "examples", "models", "proto", "scripts", "tests", "tools")


def code_lines(text):
    """Lines of code blocks, indented or fenced, with continued lines joined."""
    fenced = False
    joined = ""
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            joined += line.strip()
            if joined.endswith("\\"):
                joined = joined[:-1]
                continue
            yield joined
            joined = ""


def words_of(line):
    """The words of a command, or none if the shell would not take the line as one."""
    try:
        return shlex.split(re.sub(r"\[[^\]]*\]", "", line), comments=True)
    except ValueError:
        return []


def mistakes_in(words, binaries):
    """What the first program of ours in `words` would not take."""
    at = next((i for i, word in enumerate(words) if pathlib.PurePath(word).name in PROGRAMS), None)
    if at is None or any(not re.fullmatch(r"\w+=.*|\$?|sudo|env|exec|nice|time", word)
                         for word in words[:at]):
        return
    command = [binaries / pathlib.PurePath(words[at]).name]
    text = help_of(*command)
    for word in words[at + 1:]:
        if word in {"&", "&&", "|", ">", ";"}:
            return
        if word in subcommands_in(text):
            command.append(word)
            text = help_of(*command)
        elif word.startswith("--") and word.partition("=")[0] not in flags_in(text):
            yield f"{' '.join(map(str, command[1:])) or command[0].name} has no {word}"


def missing_files(words, source):
    for word in words:
        path = word.rstrip(";,")
        if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and not re.search(
                r"[*{}$<>]", path) and not (source / path).exists():
            yield f"{path}: no such file"


def main():
    source, binaries = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    count = 0
    mistakes = []
    for page in [*pages_of(source), source / "models/default/MODEL_CARD.md"]:
        for line in code_lines(page.read_text()):
            words = words_of(line)
            if not any(pathlib.PurePath(word).name in PROGRAMS for word in words):
                continue
            count += 1
            for mistake in [*mistakes_in(words, binaries), *missing_files(words, source)]:
                mistakes.append(f"{page.relative_to(source)}: {line}\n  {mistake}")
    assert count > 40, count
    if mistakes:
        raise SystemExit("\n".join(mistakes))
    print(f"{count} commands of the pages are as their programs take them")


if __name__ == "__main__":
    main()
