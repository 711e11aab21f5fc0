"""Text for the default pair, made by grammars: seeded, endless and of our own licence.

`document(domain, split, seed, index)` makes one document; the same arguments always
give the same text. The two splits share no plot, name, problem or function (see
document.py), but chats about facts: `is_divided`. `python3 -m synthesis` prints samples.
"""

from __future__ import annotations

from itertools import count, islice

from . import chats, edits, functions, maths, records, stories
from .document import HELD_OUT, SPLITS, TRAIN, Document, rng_for

GENERATORS = {
    "stories": stories.generate,
    "maths": maths.generate,
    "functions": functions.generate,
    "records": records.generate,
    "edits": edits.generate,
    "chats": chats.generate,
}
DOMAINS = tuple(GENERATORS)


def document(domain: str, split: str, seed: int, index: int) -> Document:
    return GENERATORS[domain](rng_for(domain, split, seed, index), split)


def is_divided(made: Document) -> bool:
    """Whether the document is of a kind that no two splits share."""
    return made.facts.get("kind") not in chats.SHARED


def held_out(domain: str, seed: int, number: int) -> list[Document]:
    """The first held-out documents of a seed that never occur in training."""
    made = (document(domain, HELD_OUT, seed, index) for index in count())
    return list(islice(filter(is_divided, made), number))
