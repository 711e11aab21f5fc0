"""Small Python functions with docstrings whose doctests pass.

A function is put together from parts: over a list (which elements, what of each, what
of all together), over a text, over a dict, over numbers. The same task comes with
different names, wordings and ways to write the body. The examples in the docstring are
what the function returned when the generator ran it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache

from ..document import Document, in_split
from .comprehensions import list_task
from .task import WORDS, Task
from .templates import number_task, table_task

__all__ = ["WORDS", "generate"]


@lru_cache(maxsize=20_000)
def compiled(source: str, name: str) -> Callable:
    scope: dict = {}
    exec(compile(source, "<generated>", "exec"), scope)  # our own text
    return scope[name]


def examples(
    rng: random.Random, task: Task, name: str, body: str, count: int
) -> list[tuple[str, str]]:
    """Calls and what they returned, as doctest shows it."""
    function = compiled(f"def {name}({task.signature}):\n{body}", name)
    found: list[tuple[str, str]] = []
    for _ in range(8):
        arguments = task.arguments(rng)
        value = function(*eval(f"[{arguments}]"))
        if any(arguments == a for a, _ in found) or len(repr(value)) > 70:
            continue
        if value is None and rng.random() < 0.7:
            continue
        found.append((arguments, repr(value)))
        if len(found) == count:
            break
    return found


def generate(rng: random.Random, split: str) -> Document:
    while True:
        task = rng.choice((list_task, list_task, table_task, table_task, number_task))(rng)
        if not in_split(split, "function", *task.key):
            continue
        name, body = rng.choice(task.names), rng.choice(task.bodies)
        shown = examples(rng, task, name, body, rng.choice((1, 2, 2, 3)))
        if shown:
            break
    doc = rng.choice(task.doc)
    if shown[0][1] == "None":  # doctest shows nothing for None
        shown = [(a, r) for a, r in shown if r != "None"] or [(shown[0][0] + ") is None", "True")]
    calls = "".join(
        f"    >>> {name}({a}" + ("" if a.endswith("is None") else ")") + f"\n    {r}\n"
        for a, r in shown
        if r != "None"
    )
    return Document(
        f'def {name}({task.signature}):\n    """{doc}\n\n{calls}    """\n',
        body.rstrip("\n"),
        {"name": name, "key": ("function", *task.key)},
    )
