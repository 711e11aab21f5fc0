"""Makes a task from one of the templates."""

from __future__ import annotations

import random

from .list_templates import DICT_TASKS, LIST_TASKS
from .number_templates import NUMBER_TASKS
from .task import Task, int_arguments, int_dict, int_list, phrase, word_list
from .text_templates import TEXT_TASKS, WORD_TASKS

# Name, templates, names of the parameter, arguments of the examples.
GROUPS = [
    ("text", TEXT_TASKS, ["text", "s", "string", "word", "line"], phrase),
    ("words", WORD_TASKS, ["words", "names", "strings"], word_list),
    (
        "items",
        LIST_TASKS,
        ["numbers", "values", "items", "data"],
        lambda r: int_list(r, 1, 12, 4, 6),
    ),
    ("dict", DICT_TASKS, ["table", "scores", "prices", "d"], int_dict),
]


def table_task(rng: random.Random) -> Task:
    group, tasks, parameters, arguments = rng.choice(GROUPS)
    key, names, docs, bodies = rng.choice(tasks)
    t = rng.choice(parameters)
    sep, j = rng.choice(
        [("comma", ","), ("dash", "-"), ("space", " "), ("plus", "+"), ("slash", "/")]
    )
    fill = {
        "t": t,
        "c": rng.choice("aeiorstnlm"),
        "d": rng.choice("xyzqkvwhub"),
        "k": rng.randint(2, 9),
        "sep": sep,
        "j": j,
    }
    used = "".join(docs)
    return Task(
        (
            group,
            key,
            *(fill[n] for n in ("c", "d", "k", "sep") if "{" + n + "}" in used + names[0]),
        ),
        [n.format(**fill) for n in names],
        t,
        [d.format(**fill) for d in docs],
        [indented(b.format(**fill)) for b in bodies],
        arguments,
    )


def number_task(rng: random.Random) -> Task:
    key, parameters, names, docs, bodies = rng.choice(NUMBER_TASKS)
    count = len(parameters.split(","))
    k, m = rng.randint(2, 20), rng.randint(2, 9)
    if key in ("power", "table"):
        k = rng.randint(2, 5)
    name = rng.choice(names).format(k=k, m=m)
    if name[0].isdigit():
        name = "mix_" + name
    return Task(
        ("number", key, k if "{k}" in names[0] else 0, m if "{m}" in names[0] else 0),
        [name],
        parameters,
        [d.format(k=k, m=m) for d in docs],
        [indented(b.format(k=k, m=m, name=name)) for b in bodies],
        lambda r: int_arguments(r, count),
    )


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.split("\n"))
