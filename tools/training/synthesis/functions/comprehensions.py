"""Functions over a list of numbers: some of its elements, mapped, then reduced."""

from __future__ import annotations

import random

from .task import Task, int_list

# Which elements: condition on {v}, words, part of the name.
FILTERS = [
    ("{v} % 2 == 0", "even numbers", "even"),
    ("{v} % 2 == 1", "odd numbers", "odd"),
    ("{v} > 0", "positive numbers", "positive"),
    ("{v} < 0", "negative numbers", "negative"),
    ("{v} > {k}", "numbers greater than {k}", "above_{k}"),
    ("{v} < {k}", "numbers less than {k}", "below_{k}"),
    ("{v} >= {k}", "numbers that are at least {k}", "at_least_{k}"),
    ("{v} <= {k}", "numbers that are at most {k}", "at_most_{k}"),
    ("{v} % {m} == 0", "multiples of {m}", "multiples_of_{m}"),
    ("{v} % {m} != 0", "numbers that {m} does not divide", "not_multiples_of_{m}"),
    ("{v} != 0", "nonzero numbers", "nonzero"),
    ("{v} != {k}", "numbers other than {k}", "not_{k}"),
    (None, "numbers", "all"),
]
# What of each element: expression, words for "the ... of the numbers", part of the name.
MAPS = [
    ("{v}", "", ""),
    ("{v} ** 2", "squares of the ", "squares"),
    ("{v} ** 3", "cubes of the ", "cubes"),
    ("{v} * 2", "doubles of the ", "doubles"),
    ("{v} * {c}", "products with {c} of the ", "times_{c}"),
    ("-{v}", "opposites of the ", "opposites"),
    ("abs({v})", "absolute values of the ", "absolute_values"),
    ("{v} + {c}", "sums with {c} of the ", "plus_{c}"),
    ("{v} // {m}", "quotients by {m} of the ", "over_{m}"),
    ("{v} % {m}", "remainders by {m} of the ", "mod_{m}"),
]
# What of all: name part, words, one-line body, loop start, loop line, loop end.
REDUCES = [
    (
        "list",
        "Return a list of the {what}.",
        "return [{e} for {v} in {s}{if_}]",
        "result = []",
        "result.append({e})",
        "return result",
    ),
    (
        "sum",
        "Return the sum of the {what}.",
        "return sum({e} for {v} in {s}{if_})",
        "total = 0",
        "total += {e}",
        "return total",
    ),
    (
        "count",
        "Return how many different values the {what} have.",
        "return len({{{e} for {v} in {s}{if_}}})",
        "seen = set()",
        "seen.add({e})",
        "return len(seen)",
    ),
    (
        "max",
        "Return the largest of the {what}, or None.",
        "return max(({e} for {v} in {s}{if_}), default=None)",
        "best = None",
        "if best is None or {e} > best:\n{i}    best = {e}",
        "return best",
    ),
    (
        "min",
        "Return the smallest of the {what}, or None.",
        "return min(({e} for {v} in {s}{if_}), default=None)",
        "best = None",
        "if best is None or {e} < best:\n{i}    best = {e}",
        "return best",
    ),
    (
        "sorted",
        "Return the {what} in ascending order.",
        "return sorted({e} for {v} in {s}{if_})",
        "result = []",
        "result.append({e})",
        "result.sort()\n    return result",
    ),
    (
        "first",
        "Return the first of the {what}, or None.",
        "return next(({e} for {v} in {s}{if_}), None)",
        "",
        "return {e}",
        "return None",
    ),
    (
        "last",
        "Return the last of the {what}, or None.",
        None,
        "last = None",
        "last = {e}",
        "return last",
    ),
]
LISTS = ["numbers", "values", "items", "nums", "data", "xs"]
ELEMENTS = {"numbers": "n", "values": "v", "items": "x", "nums": "n", "data": "x", "xs": "x"}


def list_task(rng: random.Random) -> Task:
    k, m, c = rng.randint(1, 12), rng.randint(3, 7), rng.randint(3, 10)
    condition, words, fname = rng.choice(FILTERS)
    e, map_words, mname = rng.choice(MAPS)
    rname, doc, line, start, step, end = rng.choice(REDUCES)
    s = rng.choice(LISTS)
    v = ELEMENTS[s]
    fill = {"k": k, "m": m, "c": c, "v": v, "s": s}
    condition = condition and condition.format(**fill)
    e = e.format(**fill)
    what = (map_words + words).format(**fill)
    shown = what.replace("numbers", s) if rng.random() < 0.3 and s in ("values", "items") else what
    parts = [p.format(**fill) for p in (rname, mname, fname) if p]
    inner = " " * (12 if condition else 8)
    loop = "    " + start + "\n" if start else ""
    loop += f"    for {v} in {s}:\n"
    if condition:
        loop += f"        if {condition}:\n"
    loop += inner + step.format(e=e, i=inner) + f"\n    {end}\n"
    bodies = [loop]
    if line:
        short = line.format(e=e, v=v, s=s, if_=f" if {condition}" if condition else "")
        bodies.append(f"    {short}\n")
    return Task(
        (
            "list",
            rname,
            mname,
            fname,
            k if "{k}" in fname else 0,
            m if "{m}" in fname + mname else 0,
            c if "{c}" in mname else 0,
        ),
        ["_".join(parts), "_".join([rname] + parts[1:][::-1]), "_".join(["get"] + parts)],
        s,
        [doc.format(what=shown) + (" The list may be empty." if rng.random() < 0.05 else "")],
        bodies,
        int_list,
    )
