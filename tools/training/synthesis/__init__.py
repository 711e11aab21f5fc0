"""Text for the default pair, made by grammars: seeded, endless and of our own licence.

`document(domain, split, seed, index)` makes one document; the same arguments always
give the same text. The two splits share no plot, name, problem or function (see
document.py). `python3 -m synthesis` prints samples.
"""

from __future__ import annotations

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
