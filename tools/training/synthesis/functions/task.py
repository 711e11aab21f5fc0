"""What a function computes, and how the examples of its docstring are made."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

WORDS = """apple river stone cloud tiger lamp green happy winter garden paper music window orange
silver puzzle castle rabbit summer table bridge candle forest planet yellow basket button coffee
dragon engine flower guitar hammer island jacket kitten lemon monkey needle ocean pencil queen
rocket school ticket violin wagon zebra level noon radar kayak bread chair dance eagle
fruit""".split()
KEYS = "a b c d x y z one two red blue apple pear tom ann".split()


class Task(NamedTuple):
    key: tuple  # what is computed; decides the split
    names: list[str]  # function names to choose from
    signature: str  # the parameters
    doc: list[str]  # docstrings to choose from
    bodies: list[str]  # bodies to choose from, indented by four spaces
    arguments: Callable[[random.Random], str]  # an example's arguments


def int_list(
    rng: random.Random, low: int = -9, high: int = 20, least: int = 3, most: int = 6
) -> str:
    return str([rng.randint(low, high) for _ in range(rng.randint(least, most))])


def word_list(rng: random.Random) -> str:
    return repr(rng.sample(WORDS, rng.randint(2, 5)))


def phrase(rng: random.Random) -> str:
    return repr(rng.choice(WORDS) if rng.random() < 0.7 else " ".join(rng.sample(WORDS, 2)))


def int_dict(rng: random.Random) -> str:
    values = rng.sample(range(1, 16), rng.randint(2, 4))
    return repr(dict(zip(rng.sample(KEYS, len(values)), values)))


def int_arguments(rng: random.Random, count: int) -> str:
    return ", ".join(str(n) for n in sorted(rng.randint(1, 12) for _ in range(count)))
