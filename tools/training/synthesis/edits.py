"""Edits of a given text or code: the result copies most of its input.

Each edit is an instruction in words and a change that a program carries out exactly:
names and identifiers are renamed, lines sorted, moved or removed, units converted,
values changed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

from . import functions, maths, records, stories
from .document import Document, in_split
from .grammar import expand
from .words import CITIES, COLOURS, person

Edit = tuple[str, str, str]  # instruction, text, result
ITEMS = [*maths.THINGS, *functions.WORDS]
ORDINALS = ["first", "second", "third", "fourth", "fifth"]
UNITS = {
    "kilometers": ("meters", 1000),
    "meters": ("centimeters", 100),
    "kilograms": ("grams", 1000),
    "hours": ("minutes", 60),
    "minutes": ("seconds", 60),
    "weeks": ("days", 7),
    "days": ("hours", 24),
    "feet": ("inches", 12),
    "yards": ("feet", 3),
    "liters": ("milliliters", 1000),
    "dollars": ("cents", 100),
    "years": ("months", 12),
    "dozens": ("pieces", 12),
    "tons": ("kilograms", 1000),
}


def passage(rng: random.Random, split: str) -> tuple[str, list[str]]:
    """One or two paragraphs of a story and the names in them."""
    story = stories.generate(rng, split)
    parts = story.completion.split("\n\n")
    at = rng.randrange(1, len(parts) - 1)
    text = parts[at] if rng.random() < 0.7 else "\n\n".join(parts[at : at + 2])
    return text, [n for n in story.facts["names"] if n in text]


def replace_word(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", lambda _: new, text)


def rename_person(rng: random.Random, split: str) -> Edit | None:
    text, names = passage(rng, split)
    if not names:
        return None
    old, new = rng.choice(names), person(rng, split).name
    if new in text:
        return None
    how = expand(
        "[Change the name {o} to {n}.|Rename {o} to {n}.|Replace {o} by {n}.|Call {o} {n} "
        "instead.]",
        rng,
        {"o": old, "n": new},
    )
    return how, text, replace_word(text, old, new)


def replace_colour(rng: random.Random, split: str) -> Edit | None:
    text, _ = passage(rng, split)
    found = [c for c in COLOURS if re.search(rf"\b{c}\b", text)]
    if not found:
        return None
    old, new = rng.choice(found), rng.choice(COLOURS)
    if new in found:
        return None
    return f"Replace the word {old} by {new}.", text, replace_word(text, old, new)


def shout_name(rng: random.Random, split: str) -> Edit | None:
    text, names = passage(rng, split)
    if not names:
        return None
    name = rng.choice(names)
    return f"Write {name} in capital letters.", text, replace_word(text, name, name.upper())


def drop_sentence(rng: random.Random, split: str) -> Edit | None:
    text, _ = passage(rng, split)
    sentences = re.findall(r"[^\n.!?]+[.!?]\"?(?=\s|$)", text)
    if len(sentences) < 3 or "\n" in text:
        return None
    which = rng.choice((0, -1))
    kept = sentences[1:] if which == 0 else sentences[:-1]
    return (
        f"Delete the {'first' if which == 0 else 'last'} sentence.",
        "".join(sentences).strip(),
        "".join(kept).strip(),
    )


def rename_identifier(rng: random.Random, split: str) -> Edit | None:
    doc = functions.generate(rng, split)
    text = doc.text
    if rng.random() < 0.5:
        old, new, what = (
            doc.facts["name"],
            rng.choice(
                ("compute", "solve", "run", "check", "process", "convert", "measure", "apply")
            ),
            "function",
        )
    else:
        old = re.search(r"\((\w+)", text).group(1)
        new, what = (
            rng.choice(
                ("value", "source", "given", "entry", "inputs", "record", "chunk", "payload")
            ),
            "parameter",
        )
    if re.search(rf"\b{new}\b", text) or text.count(old) < 2:
        return None
    how = expand(
        "[Rename the {w} {o} to {n}.|Change the name of the {w} {o} to {n}.|The {w} {o} should be "
        "called {n}.]",
        rng,
        {"w": what, "o": old, "n": new},
    )
    return how, text, replace_word(text, old, new)


def drop_docstring(rng: random.Random, split: str) -> Edit | None:
    doc = functions.generate(rng, split)
    return "Remove the docstring.", doc.text, doc.text.split("\n", 1)[0] + "\n" + doc.completion


def lines_of(rng: random.Random) -> list[str]:
    count = rng.randint(3, 7)
    kind = rng.randrange(3)
    if kind == 0:
        return rng.sample(ITEMS, count)
    if kind == 1:
        return rng.sample(CITIES, count)
    return [f"{rng.randint(2, 60)} {w}" for w in rng.sample(ITEMS, count)]


def change_lines(rng: random.Random, split: str) -> Edit | None:
    lines = lines_of(rng)
    n = rng.randrange(min(len(lines), 5))
    new = rng.choice(ITEMS)
    moved = lines[1:] + lines[:1]
    options = [
        ("Sort the lines in alphabetical order.", sorted(lines)),
        ("Reverse the order of the lines.", lines[::-1]),
        (f"Delete the {ORDINALS[n]} line.", lines[:n] + lines[n + 1 :]),
        ("Move the first line to the end.", moved),
        ("Move the last line to the front.", lines[-1:] + lines[:-1]),
        ("Number the lines.", [f"{i}. {t}" for i, t in enumerate(lines, 1)]),
        ("Put a dash before each line.", [f"- {t}" for t in lines]),
        (f'Add the line "{new}" at the end.', lines + [new]),
        (f'Add the line "{new}" at the front.', [new] + lines),
        ("Join the lines with commas.", [", ".join(lines)]),
        ("Write each line in capital letters.", [t.upper() for t in lines]),
        (f'Replace the {ORDINALS[n]} line by "{new}".', lines[:n] + [new] + lines[n + 1 :]),
    ]
    how, result = rng.choice(options)
    if how.startswith("Sort") and lines[0][0].isdigit():
        return None
    return how, "\n".join(lines), "\n".join(result)


def convert_units(rng: random.Random, split: str) -> Edit | None:
    unit = rng.choice(sorted(UNITS))
    to, factor = UNITS[unit]
    high = 12 if factor in (60, 24, 7) else 20
    told = {
        "length": [
            "{p} walked {n} {u} to the [lake|market|school|station].",
            "The rope was {n} {u} long.",
            "The [garden|bridge|fence] measures {n} {u}.",
            "They drove {n} {u} before lunch.",
        ],
        "mass": [
            "{p} bought {n} {u} of [flour|rice|apples|sand].",
            "The bag weighs {n} {u}.",
            "A load of {n} {u} was too much for the cart.",
        ],
        "time": [
            "{p} waited for {n} {u}.",
            "The trip to {c} took {n} {u}.",
            "The soup cooked for {n} {u}.",
            "After {n} {u}, {p} gave up.",
        ],
        "volume": [
            "{p} poured {n} {u} of [water|milk|juice] into the pot.",
            "The bucket holds {n} {u}.",
        ],
        "money": ["{p} paid {n} {u} for the [book|ticket|cake].", "The toy costs {n} {u}."],
        "count": ["{p} ordered {n} {u} of [eggs|rolls|buttons]."],
    }
    kind = {
        "kilograms": "mass",
        "tons": "mass",
        "hours": "time",
        "minutes": "time",
        "weeks": "time",
        "days": "time",
        "years": "time",
        "liters": "volume",
        "dollars": "money",
        "dozens": "count",
    }.get(unit, "length")
    before, after = [], []
    for template in rng.sample(told[kind], min(len(told[kind]), rng.randint(1, 3))):
        n = rng.randint(2, high)
        text = expand(
            template,
            rng,
            {"p": person(rng, split).name, "n": "%", "u": "@", "c": rng.choice(CITIES)},
        )
        before.append(text.replace("%", str(n)).replace("@", unit))
        after.append(text.replace("%", str(n * factor)).replace("@", to))
    return f"Convert {unit} to {to}.", " ".join(before), " ".join(after)


def change_json(rng: random.Random, split: str) -> Edit | None:
    _, value, _, one_line = records.record(rng, split)
    key = rng.choice(list(value))
    changed = dict(value)
    kind = rng.randrange(3)
    if kind == 0:
        del changed[key]
        how = f'Remove the key "{key}".'
    elif kind == 1:
        new = rng.choice(("label", "info", "note", "entry", "field", "detail"))
        changed = {new if k == key else k: v for k, v in value.items()}
        how = f'Rename the key "{key}" to "{new}".'
    else:
        if not isinstance(value[key], (int, str)) or isinstance(value[key], bool):
            return None
        changed[key] = rng.randint(1, 99) if isinstance(value[key], int) else rng.choice(ITEMS)
        how = f'Set "{key}" to {json.dumps(changed[key])}.'
    return how, records.dump(value, one_line), records.dump(changed, one_line)


def to_table(rng: random.Random, split: str) -> Edit | None:
    rows = [
        (person(rng, split).name, rng.randint(2, 90), rng.choice(CITIES))
        for _ in range(rng.randint(2, 5))
    ]
    text = "\n".join(f"{a},{b},{c}" for a, b, c in rows)
    options = [
        ("Swap the first two columns.", "\n".join(f"{b},{a},{c}" for a, b, c in rows)),
        ("Remove the last column.", "\n".join(f"{a},{b}" for a, b, c in rows)),
        (
            "Turn the rows into sentences.",
            "\n".join(f"{a} is {b} and lives in {c}." for a, b, c in rows),
        ),
        ("Separate the columns by semicolons.", text.replace(",", ";")),
        ("Add 1 to every age.", "\n".join(f"{a},{b + 1},{c}" for a, b, c in rows)),
        ("Keep only the names.", "\n".join(a for a, _, _ in rows)),
    ]
    how, result = rng.choice(options)
    return how, text, result


EDITS: list[Callable[[random.Random, str], Edit | None]] = [
    rename_person,
    rename_person,
    replace_colour,
    shout_name,
    drop_sentence,
    rename_identifier,
    rename_identifier,
    drop_docstring,
    change_lines,
    change_lines,
    convert_units,
    change_json,
    to_table,
]


def edit(rng: random.Random, split: str) -> Edit:
    while True:
        made = rng.choice(EDITS)(rng, split)
        if made is not None and in_split(split, "edit", made[0], made[1]):
            return made


def generate(rng: random.Random, split: str) -> Document:
    how, text, result = edit(rng, split)
    return Document(f"Edit: {how}\nText:\n{text}\nResult:\n", result, {"result": result})
