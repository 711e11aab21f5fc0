"""Children's stories from a story grammar.

A plot is drawn first: the kind of story, who, where, what is wished for, what is in
the way and who helps. Then it is told beat by beat, each beat one of several
sentences. Characters keep name, pronouns and trait through the story.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ..document import Document, in_split
from ..grammar import expand
from .plot import Plot
from .plots import PLOTS

__all__ = ["generate"]

OPENINGS = [
    "[Once upon a time|Once|Long ago|A long time ago], there was {a adj} [little |young |small "
    "|]{kind} named {h}.",
    "[Once upon a time, in|In] {home}, there lived {a adj} [little |young |]{kind} called {h}.",
    "{h} was {a adj} [little |young |small |]{kind}[ who lived near {place}| who lived in "
    "{home}|].",
    "There was once {a adj} {kind} whose name was {h}.",
    "[Not far from {place}|Near {place}], there lived {a kind} named {h}. {cap he} was very {adj}.",
    "{h} the {kind} lived [in {home}|near {place}]. Everyone knew that {he} was {adj}.",
]
TRAIT = [
    "{cap he} {habit}[ and {habit2}|].",
    "{h} {habit}, and {he} {habit2}.",
    "{cap he} {habit2}, and most of all {he} loved {hobby}.",
    "{cap his} favorite thing was {hobby}.",
    "[Every day|In the morning|After breakfast], {he} spent some time {hobby}.",
    "",
]
TIMES = [
    "One day",
    "One morning",
    "One {weather} morning",
    "One {weather} afternoon",
    "On {a weather} day",
    "Early one morning",
    "One evening",
    "Last spring",
    "One summer day",
    "One autumn afternoon",
    "On the first day of winter",
    "On {his} birthday",
]
WEATHER = ["{cap sky}.", "It was {weather}, and {sky}.", "", ""]
SETTING = [
    "At {place} there were {seen}.",
    "{cap place} was full of life, with {seen}.",
    "{h} could see {seen}.",
    "",
]
ENDINGS = [
    "From that day on, {h} and {f} were [best friends|good friends|never apart for long].",
    "{h} [smiled|laughed|nodded] and thought: {lesson}.",
    "That night, {h} [fell asleep with a smile|told the whole story to the moon|slept better than "
    "ever].",
    "And whenever {h} came past {spot}, {he} remembered that day.",
    '"[Do you know what|You know what|See]?" {h} said. "{cap lesson}."',
    "They went home together and had {food}.",
    "{h} had learned that {lesson}.",
    "In the evening they all sat together, ate {food} and [laughed|told stories|sang].",
    "The end.",
    "And that is how {h} found out that {lesson}.",
    "{cap he} was [tired|happy|proud and tired], and the {food} tasted better than ever.",
]


def plan(rng: random.Random, split: str) -> tuple[Plot, Callable[[Plot], None]]:
    """A plot of this split, not yet told."""
    while True:
        p, kind = Plot(rng, split), rng.choice(PLOTS)
        p.key = ("story", kind.__name__, p.s["place"], p.s["thing"], p.s["helper"])
        if in_split(split, *p.key):
            break
    p.s["time"] = expand(rng.choice(TIMES), rng, p.s)
    p.s["time_"] = p.s["time"][0].lower() + p.s["time"][1:]
    return p, kind


def generate(rng: random.Random, split: str) -> Document:
    p, kind = plan(rng, split)
    p.tell(rng.choice(OPENINGS), rng.choice(TRAIT), rng.choice(SETTING + WEATHER))
    kind(p)
    first = rng.choice(ENDINGS)
    p.tell(
        first,
        *(
            e
            for e in rng.sample(ENDINGS, rng.choice((0, 0, 1)))
            if not any(x in e and x in first for x in ("{lesson}", "{food}", "The end"))
        ),
    )
    text = "\n\n".join(p.beats)
    return Document("", text, {"names": [n for n in p.names if n in text], "key": p.key})
