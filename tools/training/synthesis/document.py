"""What every domain's generator returns, and how the held-out set is kept apart.

A generator draws the parts of a document (plot, names, numbers, function), forms a
key of them and asks `in_split`. The key's hash decides, so that a held-out plot,
name or function never occurs in the training split whatever the seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

TRAIN, HELD_OUT = "train", "held-out"
SPLITS = (TRAIN, HELD_OUT)
HELD_OUT_ONE_IN = 16


class Document(NamedTuple):
    prompt: str  # what a user would give; may be empty
    completion: str  # what the model should write
    facts: dict[str, Any] = {}  # what a checker needs: answer, names, ...

    @property
    def text(self) -> str:
        return self.prompt + self.completion


def in_split(split: str, *key: object) -> bool:
    """Whether a document with this key belongs to the split."""
    text = "\x1f".join(map(str, key))
    return (crc32(text.encode()) % HELD_OUT_ONE_IN == 0) == (split == HELD_OUT)


def divide(items: Sequence[str]) -> dict[str, list[str]]:
    """A word list by split, each word by its hash."""
    return {s: [i for i in items if in_split(s, i)] for s in SPLITS}


def rng_for(domain: str, split: str, seed: int, index: int) -> random.Random:
    """The generator of one document: any document can be made without the others."""
    return random.Random(f"{domain}/{split}/{seed}/{index}")
