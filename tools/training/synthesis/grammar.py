"""Templates: `[one|other]` chooses, `{slot}` fills in.

A slot is looked up in a dict of strings. `{a slot}` puts "a" or "an" before it,
`{cap slot}` makes its first letter a capital. Brackets nest; an empty alternative
leaves the part out. A template is parsed once and kept.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache


def article(word: str) -> str:
    vowel = word[:1].lower() in "aeiou" and not word.startswith(("uni", "use", "one", "eu"))
    return ("an " if vowel or word.startswith(("hour", "honest")) else "a ") + word


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


class _Choice:
    __slots__ = ("options",)

    def __init__(self, options: list[tuple]):
        self.options = options


class _Slot:
    __slots__ = ("name", "change")

    def __init__(self, text: str):
        head, _, tail = text.rpartition(" ")
        self.name = tail
        self.change = {
            "": None,
            "a": article,
            "cap": capital,
            "cap a": lambda s: capital(article(s)),
        }[head]


@lru_cache(maxsize=None)
def parse(template: str) -> tuple:
    parts, at = _sequence(template, 0, nested=False)
    if at != len(template):
        raise ValueError(f"unbalanced brackets: {template!r}")
    return parts


def _sequence(text: str, at: int, nested: bool) -> tuple[tuple, int]:
    parts: list = []
    start = at
    while at < len(text):
        c = text[at]
        if c not in "[{" and not (nested and c in "|]"):
            at += 1
            continue
        if at > start:
            parts.append(text[start:at])
        if c == "{":
            end = text.index("}", at)
            parts.append(_Slot(text[at + 1 : end]))
            at = end + 1
        elif c == "[":
            options = []
            while text[at] != "]":
                option, at = _sequence(text, at + 1, nested=True)
                options.append(option)
            parts.append(_Choice(options))
            at += 1
        else:
            return tuple(parts), at
        start = at
    if nested:
        raise ValueError(f"unbalanced brackets: {text!r}")
    if at > start:
        parts.append(text[start:at])
    return tuple(parts), at


def expand(template: str, rng: random.Random, slots: Mapping[str, str]) -> str:
    out: list[str] = []
    _expand(parse(template), rng, slots, out)
    return "".join(out)


def _expand(parts: tuple, rng: random.Random, slots: Mapping[str, str], out: list[str]) -> None:
    for part in parts:
        if type(part) is str:
            out.append(part)
        elif type(part) is _Slot:
            value = slots[part.name]
            out.append(part.change(value) if part.change else value)
        else:
            options = part.options
            _expand(options[int(rng.random() * len(options))], rng, slots, out)
