"""Rows of ids for training: generated documents mixed with a corpus of real text.

Every step's batch is a function of the seed and the step alone, so that training goes
on where it stopped, and several processes can make batches without talking.

A corpus folder holds `DOMAIN.txt` and `DOMAIN.heldout.txt`, in which each document
ends with a line `<|endoftext|>`. In a row every document follows an end-of-text id,
which thus also opens a text.
"""

from __future__ import annotations

import multiprocessing
import queue
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import synthesis
from tokenizer import END_OF_TEXT, Tokenizer

CORPUS_DOMAINS = ("stories", "maths", "code")

# Shares of the generated tokens. The corpus, real text, is split evenly among its domains.
SHARES = {"stories": 5, "maths": 5, "functions": 4, "records": 2, "edits": 2, "chats": 2}
CORPUS_SHARE = 0.20
PROMPT_WEIGHT = 0.3  # of a prompt's tokens in the loss; its numbers and names are random


def read_documents(path: Path) -> list[str]:
    parts = path.read_text(encoding="utf-8").split(END_OF_TEXT)
    return [d for d in (p.strip("\n") for p in parts) if d.strip()]


def encode_documents(tokenizer: Tokenizer, path: Path) -> list[np.ndarray]:
    """Each document as ids, led by the end-of-text id."""
    return [
        np.array([tokenizer.eos, *tokenizer.encode(d)], dtype=np.int64)
        for d in read_documents(path)
    ]


class Mixture:
    """Batches of rows that are filled with whole documents; the last one is cut."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        corpus: Path | None,
        seed: int,
        corpus_share: float = CORPUS_SHARE,
        split: str = synthesis.TRAIN,
    ):
        self.tokenizer, self.seed, self.split = tokenizer, seed, split
        self.corpus: dict[str, list[str]] = {}
        if corpus is not None:
            self.corpus = {d: read_documents(corpus / f"{d}.txt") for d in CORPUS_DOMAINS}
        rest = sum(SHARES.values()) / (1 - corpus_share if corpus else 1)
        shares = {d: share / rest for d, share in SHARES.items()}
        shares |= {"corpus " + d: corpus_share / len(self.corpus) for d in self.corpus}
        rng = random.Random(0)
        lengths = {
            d: np.mean([min(len(self._document(rng, d)[0]), 512) for _ in range(100)])
            for d in shares
        }
        self.domains = list(shares)
        self.chances = [shares[d] / lengths[d] for d in self.domains]

    def _document(self, rng: random.Random, domain: str) -> tuple[list[int], int]:
        """Ids, and how many of them are prompt."""
        t = self.tokenizer
        if domain.startswith("corpus "):
            return [t.eos, *t.encode(rng.choice(self.corpus[domain[7:]]))], 1
        document = synthesis.document(domain, self.split, self.seed, rng.getrandbits(48))
        while self.split == synthesis.HELD_OUT and not synthesis.is_divided(document):
            document = synthesis.document(domain, self.split, self.seed, rng.getrandbits(48))
        encode = t.encode_chat if domain == "chats" else t.encode
        prompt = [t.eos, *encode(document.prompt)]
        return prompt + encode(document.completion), len(prompt)

    def batch(self, step: int, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids [rows, length + 1] and the loss's weights [rows, length] of ids[:, 1:]."""
        rng = random.Random(f"{self.seed}/{step}")
        ids = np.empty((rows, length + 1), dtype=np.int16)
        weights = np.ones((rows, length + 1), dtype=np.float32)
        for row in range(rows):
            at = 0
            while at <= length:
                domain = rng.choices(self.domains, self.chances)[0]
                document, prompt = self._document(rng, domain)
                if len(document) > length and rng.random() < 0.5:  # the far end, too
                    document = document[rng.randrange(len(document) - length) :]
                    prompt = 0
                count = min(len(document), length + 1 - at)
                ids[row, at : at + count] = document[:count]
                weights[row, at + 1 : at + min(prompt, count)] = PROMPT_WEIGHT
                at += count
        return ids, weights[:, 1:]


def _serve(mixture: Mixture, first: int, stride: int, rows: int, length: int, sink) -> None:
    made = queue.Queue(maxsize=8)

    def send() -> None:
        while True:
            sink.send(made.get())

    threading.Thread(target=send, daemon=True).start()
    step = first
    while True:
        made.put(mixture.batch(step, rows, length))
        step += stride


def batches(
    mixture: Mixture, first: int, stride: int, rows: int, length: int, processes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every `stride`-th batch from `first` on, made by so many processes; 0: by this one.

    Raises RuntimeError if one of the processes has ended.
    """
    if processes == 0:
        step = first
        while True:
            yield mixture.batch(step, rows, length)
            step += stride
    context = multiprocessing.get_context("fork")
    makers = []
    for n in range(processes):
        source, sink = context.Pipe(duplex=False)
        args = (mixture, first + n * stride, processes * stride, rows, length, sink)
        process = context.Process(target=_serve, daemon=True, args=args)
        process.start()
        sink.close()  # else the pipe would not end with that process
        makers.append((process, source))
    step = 0
    while True:
        process, source = makers[step % processes]
        try:
            batch = source.recv()
        except (EOFError, OSError):
            process.join()
            raise RuntimeError(
                f"process {process.pid}, which made batches, ended with exit code "
                f"{process.exitcode}; start the script again to go on from its checkpoint"
            ) from None
        yield batch
        step += 1
