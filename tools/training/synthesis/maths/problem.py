"""A word problem while it is told."""

from __future__ import annotations

import random

from ..grammar import expand
from ..words import Person


class Problem:
    """A problem as it is being told: sentences, lines and the numbers so far."""

    def __init__(self, rng: random.Random, persons: list[Person]):
        self.rng = rng
        self.story: list[str] = []
        self.lines: list[str] = []
        self.numbers: list[int] = []
        p, o, third = persons
        self.slots = {
            "p": p.name,
            "he": p.he,
            "his": p.his,
            "him": p.him,
            "o": o.name,
            "ohe": o.he,
            "ohis": o.his,
            "t": third.name,
        }

    def pick(self, low: int, high: int) -> int:
        n = self.rng.randint(low, high)
        self.numbers.append(n)
        return n

    def choose(self, options):
        n = self.rng.choice(options)
        self.numbers.append(n)
        return n

    def word(self, options) -> str:
        return self.rng.choice(options)

    def set(self, **slots) -> None:
        self.slots.update({k: str(v) for k, v in slots.items()})

    def say(self, template: str, **slots) -> None:
        self.set(**slots)
        self.story.append(expand(template, self.rng, self.slots))

    def work(self, template: str, sum_: str, result: int) -> None:
        """One line of the answer; `{=}` in the template is the equation."""
        self.slots["="] = f"{sum_} = {result}"
        self.lines.append(expand(template, self.rng, self.slots))
