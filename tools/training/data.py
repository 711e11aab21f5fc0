"""The corpus: documents, their ids, and rows of ids for training.

A corpus folder holds `DOMAIN.txt` and `DOMAIN.heldout.txt`, in which each
document ends with a line `<|endoftext|>`. In the id streams every document
follows an end-of-text id, which thus also opens a text.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tokenizer import END_OF_TEXT, Tokenizer

DOMAINS = ("stories", "maths", "code")


def read_documents(path: Path) -> list[str]:
    parts = path.read_text(encoding="utf-8").split(END_OF_TEXT)
    return [d for d in (p.strip("\n") for p in parts) if d.strip()]


def encode_documents(tokenizer: Tokenizer, path: Path) -> list[np.ndarray]:
    """Each document as ids, led by the end-of-text id."""
    return [np.array([tokenizer.eos, *tokenizer.encode(d)], dtype=np.int64)
            for d in read_documents(path)]


class Rows:
    """Endless rows from documents that are shuffled anew in each pass.

    Half of the rows begin at the start of a document, as texts do when a model
    is used; the others go on where the row before them stopped, so that the
    far ends of long documents are learned too.
    """

    def __init__(self, documents: list[np.ndarray], rng: np.random.Generator):
        self.documents = documents
        self.rng = rng
        self._shuffle()

    def _shuffle(self) -> None:
        order = self.rng.permutation(len(self.documents))
        self.stream = np.concatenate([self.documents[i] for i in order])
        lengths = [len(self.documents[i]) for i in order]
        self.starts = np.cumsum([0, *lengths])
        self.at = 0

    def next(self, length: int) -> np.ndarray:
        """`length` inputs and, shifted by one, as many targets."""
        if self.rng.random() < 0.5:
            self.at = self.starts[np.searchsorted(self.starts, self.at)]
        if self.at + length + 1 > len(self.stream):
            self._shuffle()
        row = self.stream[self.at:self.at + length + 1]
        self.at += length
        return row


class Mixture:
    """Batches in which the domains take turns row by row."""

    def __init__(self, tokenizer: Tokenizer, corpus: Path, seed: int):
        rng = np.random.default_rng(seed)
        self.sources = [Rows(encode_documents(tokenizer, corpus / f"{d}.txt"), rng)
                        for d in DOMAINS]
        self.turn = 0

    def batch(self, rows: int, length: int) -> np.ndarray:
        out = []
        for _ in range(rows):
            out.append(self.sources[self.turn % len(self.sources)].next(length))
            self.turn += 1
        return np.stack(out)
