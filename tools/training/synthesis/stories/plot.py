"""The parts of a story that decide what happens, and its telling."""

from __future__ import annotations

import random

from .. import story_words as w
from ..grammar import expand
from ..words import COLOURS, people

# Sentences of little weight that any paragraph may hold; they bring words, not plot.
TEXTURE = [
    "[Somewhere|In the distance|Not far away], {noise} {noised}.",
    "[The air|The place|Everything] smelled of {smell}.",
    "[It was|Everything was] as {like} as {what}.",
    "On the way {he} passed {a look} {noun} and {a look2} {noun2}.",
    "In {his} pocket {he} had {a noun}, {a noun2} and {a look} {noun3}.",
    "{h} wore {a look} {colour2} {garment}[ that day|].",
    "{h} hummed {adverb}[ to {him}self|].",
    "{h} {moved} {adverb} and looked at {a look} {noun}.",
    "[In a corner|Beside the door|Under a tree] lay {a look} {noun}[ and {a noun2}|].",
    '"[Look|Oh], {a look} {noun}!" said {h}[ {adverb}|].',
    "{cap noise} {noised}, and {h} [laughed|turned around|stood still].",
]


class Plot:
    """The parts of a story that decide what happens; `key` tells plots apart."""

    def __init__(self, rng: random.Random, split: str):
        self.rng = rng
        hero, friend, third = people(rng, split, 3)
        self.names = [hero.name, friend.name]
        adj, habit, habit2 = rng.choice(w.TRAITS)
        place, seen, spot, spot2 = rng.choice(w.PLACES)
        weather, sky = rng.choice(w.WEATHER)
        thing, things, part = rng.choice(w.THINGS)
        human = rng.random() < 0.55
        kind = ("girl" if hero.girl else "boy") if human else rng.choice(w.KINDS)
        fkind = ("girl" if friend.girl else "boy") if human else rng.choice(w.KINDS)
        self.s = {
            "h": hero.name,
            "he": hero.he,
            "him": hero.him,
            "his": hero.his,
            "kind": kind,
            "f": friend.name,
            "fhe": friend.he,
            "fhim": friend.him,
            "fhis": friend.his,
            "fkind": fkind,
            "t": third.name,
            "the_": third.he,
            "this_": third.his,
            "adj": adj,
            "habit": habit,
            "habit2": habit2,
            "hobby": rng.choice(w.HOBBIES),
            "place": place,
            "seen": seen,
            "spot": spot,
            "spot2": spot2,
            "weather": weather,
            "sky": sky,
            "thing": thing,
            "things": things,
            "part": part,
            "colour": rng.choice(COLOURS),
            "colour2": rng.choice(COLOURS),
            "helper": rng.choice(w.HELPERS),
            "food": rng.choice(w.FOODS),
            "food2": rng.choice(w.FOODS),
            "lesson": rng.choice(w.LESSONS),
            "home": rng.choice(
                [
                    "a small house",
                    "a village by the sea",
                    "a town with crooked streets",
                    "a hollow tree",
                    "a cottage at the edge of the woods",
                    "a valley",
                    "a house with a red roof",
                    "a city by the river",
                    "a farm on a hill",
                ]
            ),
        }
        nouns, looks = rng.sample(w.NOUNS, 3), rng.sample(w.LOOKS, 2)
        noise, noised = rng.choice(w.SOUNDS)
        like, what = rng.choice(w.SIMILES)
        self.s |= {
            "noun": nouns[0],
            "noun2": nouns[1],
            "noun3": nouns[2],
            "look": looks[0],
            "look2": looks[1],
            "noise": noise,
            "noised": noised,
            "like": like,
            "what": what,
            "smell": rng.choice(w.SMELLS),
            "moved": rng.choice(w.MOVES),
            "adverb": rng.choice(w.ADVERBS),
            "garment": rng.choice(w.GARMENTS),
        }
        self.textures = rng.sample(TEXTURE, rng.choice((0, 1, 1, 2)))
        self.key: tuple = ()
        self.beats: list[str] = []

    def draw(self, rows, *names: str) -> None:
        """Puts the fields of one row of a list into slots of these names."""
        self.s.update(zip(names, self.rng.choice(rows)))

    def tell(self, *templates: str) -> None:
        """One paragraph of sentences."""
        chosen = list(templates)
        if self.beats and self.textures and len(chosen) > 2 and self.rng.random() < 0.6:
            chosen.insert(self.rng.choice((1, 2)), self.textures.pop())
        parts = [expand(t, self.rng, self.s) for t in chosen]
        self.beats.append(" ".join(p for p in parts if p))

    def one(self, options) -> str:
        return self.rng.choice(options)
