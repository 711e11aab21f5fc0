"""Samples rows of text from the target, for the drafter to learn from.

The target goes on from prompts of the generator and from openings of corpus documents,
the contexts that speculative decoding will meet, at the temperature at which the pair
is to agree. Rows are saved as one array of ids, with the place where each sample begins;
started again, the script adds the batches that lack.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch

import synthesis
from data import CORPUS_DOMAINS, read_documents
from export import load_any
from model import Llama
from precision import fast_products
from tokenizer import Tokenizer


def prompts(
    tokenizer: Tokenizer, corpus: Path | None, split: str, seed: int, count: int, most: int
) -> list[list[int]]:
    """Prompts of at most `most` ids, the domains in turn."""
    rng = random.Random(f"prompts/{split}/{seed}")
    real = []
    if corpus is not None:
        suffix = ".txt" if split == synthesis.TRAIN else ".heldout.txt"
        real = [read_documents(corpus / (d + suffix)) for d in CORPUS_DOMAINS]
    found: list[list[int]] = []
    while len(found) < count:
        n = len(found) % (len(synthesis.DOMAINS) + len(real))
        if n >= len(synthesis.DOMAINS):
            ids = tokenizer.encode(rng.choice(real[n - len(synthesis.DOMAINS)])[:400])
            ids = ids[: rng.choice((4, 8, 16))]
        else:
            domain = synthesis.DOMAINS[n]
            document = synthesis.document(domain, split, seed, rng.getrandbits(40))
            encode = tokenizer.encode_chat if domain == "chats" else tokenizer.encode
            text = document.prompt or document.completion[: rng.choice((0, 20, 60, 120))]
            ids = encode(text)
        if len(ids) < most:
            found.append([tokenizer.eos, *ids])
    return found


@torch.no_grad()
def continue_rows(
    model: Llama,
    openings: list[list[int]],
    length: int,
    temperature: float,
    ends: tuple[int, ...] = (),
) -> torch.Tensor:
    """Samples on from openings of different lengths until every row has `length` ids.

    A row in which an id of `ends` was sampled is padded with the first of them. At
    temperature 0 the likeliest id is taken.
    """
    device = model.embedding.weight.device
    rows = torch.full((len(openings), length), ends[0] if ends else 0, dtype=torch.int64)
    for row, opening in zip(rows, openings):
        row[: len(opening)] = torch.tensor(opening)
    lengths = torch.tensor([len(o) for o in openings], device=device)
    rows = rows.to(device)
    cache = model.new_cache(len(openings), length)
    at = min(len(o) for o in openings)
    ended = torch.zeros(len(openings), dtype=torch.bool, device=device)
    logits = model.next_logits(rows[:, :at], cache)
    while at < length:
        if temperature == 0:
            ids = logits.argmax(-1)
        else:
            ids = torch.multinomial((logits.float() / temperature).softmax(-1), 1)[:, 0]
        sampled = at >= lengths
        if ends:
            ids = ids.masked_fill(ended, ends[0])
            ended |= sampled & sum(ids == e for e in ends).bool()
        rows[:, at] = torch.where(sampled, ids, rows[:, at])
        at += 1
        if at == length or ends and bool(ended.all()):
            break
        logits = model.next_logits(rows[:, at - 1 : at], cache)
    return rows


def save(path: Path, rows: np.ndarray, begins: np.ndarray) -> None:
    """Stopped in the middle, it leaves the file as it was."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:  # savez would give a path another name
        np.savez(file, rows=rows, begins=begins)
    new.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="a checkpoint or a folder")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a .npz file")
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--rows", type=int, default=64, help="per batch")
    parser.add_argument("--length", type=int, default=384, help="of a row, in ids")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    rows, begins = np.empty((0, args.length), np.int16), np.empty(0, np.int16)
    if args.out.exists():
        saved = np.load(args.out)
        rows, begins = saved["rows"], saved["begins"]
    tokenizer = Tokenizer(args.tokenizer)
    model = load_any(args.target).to(args.device)
    for n in range(len(rows) // args.rows, args.batches):
        clock = time.time()
        torch.manual_seed(args.seed * 1000 + n)
        openings = prompts(
            tokenizer,
            args.corpus,
            synthesis.TRAIN,
            args.seed * 1000 + n,
            args.rows,
            args.length // 2,
        )
        openings.sort(key=len)
        with fast_products(args.device):
            new = continue_rows(model, openings, args.length, args.temperature)
        rows = np.concatenate((rows, new.cpu().numpy().astype(np.int16)))
        begins = np.concatenate((begins, np.array([len(o) for o in openings], np.int16)))
        save(args.out, rows, begins)
        print(
            f"{len(rows)} rows, {args.rows * args.length / (time.time() - clock):.0f} tokens/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
