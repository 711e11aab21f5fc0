"""Samples rows of text from the target, for the drafter to learn from.

The rows go on from the openings of corpus documents, the domains in turn, at
temperature 1: the contexts that speculative decoding will meet. They are saved
as one array of ids; started again, the script adds the batches that lack.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from data import DOMAINS, encode_documents
from export import load_folder
from model import Llama
from tokenizer import Tokenizer

OPENINGS = (1, 4, 12, 32)  # the lengths of the openings, in ids


@torch.no_grad()
def continue_rows(model: Llama, rows: torch.Tensor, length: int,
                  temperature: float = 1.0) -> torch.Tensor:
    """Samples on from `rows`, all of one length, until they have `length` ids."""
    cache = model.new_cache(rows.shape[0], length)
    step = rows
    while rows.shape[1] < length:
        logits = model.next_logits(step, cache)
        step = torch.multinomial((logits / temperature).softmax(-1), 1)
        rows = torch.cat((rows, step), dim=1)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="an exported folder")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a .npy file")
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--rows", type=int, default=96, help="per batch")
    parser.add_argument("--length", type=int, default=256, help="of a row, in ids")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    done = np.load(args.out) if args.out.exists() else np.empty((0, args.length), np.int16)
    torch.manual_seed(args.seed + len(done))
    rng = np.random.default_rng(args.seed + len(done))
    tokenizer = Tokenizer(args.target / "tokenizer.json")
    model = load_folder(args.target)
    documents = [encode_documents(tokenizer, args.corpus / f"{d}.txt") for d in DOMAINS]
    for n in range(len(done) // args.rows, args.batches):
        clock, opening = time.time(), OPENINGS[n % len(OPENINGS)]
        choices = [[d for d in docs if len(d) >= opening] for docs in documents]
        first = [choices[i % len(choices)][rng.integers(len(choices[i % len(choices)]))][:opening]
                 for i in range(args.rows)]
        rows = continue_rows(model, torch.from_numpy(np.stack(first)), args.length)
        done = np.concatenate((done, rows.numpy().astype(np.int16)))
        np.save(args.out, done)
        print(f"{len(done)} rows, {args.rows * args.length / (time.time() - clock):.0f} tokens/s",
              flush=True)


if __name__ == "__main__":
    main()
