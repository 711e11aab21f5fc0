"""Word problems of one to three steps with worked answers.

A problem is told by one of several kinds of situation; each names its numbers, the
sentences of the question and the lines of the answer. The last line is
`Answer: N`. Numbers stay small: sums and differences below 1,000, products within
the tables up to 12, or by a round number.
"""

from __future__ import annotations

import random

from ..document import Document, in_split
from ..words import people
from .kinds import KINDS
from .problem import Problem
from .vocabulary import THINGS

__all__ = ["THINGS", "generate"]

STEPS = (1, 1, 1, 2, 2, 2, 3, 3)  # of which a problem's is drawn


def generate(rng: random.Random, split: str) -> Document:
    while True:
        kind, steps = rng.choice(KINDS), rng.choice(STEPS)
        problem = Problem(rng, people(rng, split, 3))
        answer = kind(problem, steps)
        key = ("maths", kind.__name__, *problem.numbers)
        if in_split(split, *key):
            break
    story = " ".join(problem.story)
    lines = "\n".join(problem.lines)
    return Document(
        f"Question: {story}\n",
        f"{lines}\nAnswer: {answer}",
        {"answer": answer, "steps": steps, "key": key},
    )
