"""Trains a model of the default pair on the corpus text.

AdamW with warm-up and a rate that falls in a line to zero; matrix products in
bfloat16, weights and the rest in float32. The last part of the steps sees
longer rows, so that the model is at home over its whole context. Writes
`checkpoint.pt` to the work folder as it goes and, started again, goes on from
there.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from data import DOMAINS, Mixture, encode_documents
from model import DRAFTER, TARGET, Llama
from tokenizer import Tokenizer

SHORT, LONG = 256, 512
LONG_FROM = 0.72  # the share of the steps after which rows are LONG


def optimizer_for(model: Llama, rate: float) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), foreach=True)


def rate_at(step: int, steps: int, peak: float, warmup: int) -> float:
    return peak * min((step + 1) / warmup, (steps - step) / (steps - warmup))


def apply(model: Llama, optimizer: torch.optim.Optimizer, rate: float) -> None:
    """One step along the gradients that are in place."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


@torch.no_grad()
def perplexities(model: Llama, documents: dict[str, list[np.ndarray]]) -> dict[str, float]:
    """Per-token perplexity of each domain's documents, cut to the context."""
    result = {}
    for domain, docs in documents.items():
        total, count = 0.0, 0
        for doc in docs:
            ids = torch.from_numpy(np.append(doc, doc[0])[:model.c.max_positions + 1])[None]
            logits = model(ids[:, :-1])[0]
            total += F.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
            count += ids.shape[1] - 1
        result[domain] = float(np.exp(total / count))
    return result


def heldout_documents(tokenizer: Tokenizer, corpus: Path, limit: int | None = None):
    return {d: encode_documents(tokenizer, corpus / f"{d}.heldout.txt")[:limit] for d in DOMAINS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("target", "drafter"), required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(args.tokenizer)
    heldout = heldout_documents(tokenizer, args.corpus, limit=25)
    model = Llama(TARGET if args.model == "target" else DRAFTER)
    optimizer = optimizer_for(model, args.rate)
    checkpoint, step, seconds = args.work / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, seconds = saved["step"], saved["seconds"]
    mixture = Mixture(tokenizer, args.corpus, seed=args.seed + step)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, from step {step}", flush=True)

    clock, losses = time.time(), []
    while step < args.steps:
        length = LONG if step >= LONG_FROM * args.steps else SHORT
        batch = torch.from_numpy(mixture.batch(args.batch_tokens // length, length))
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        apply(model, optimizer, rate_at(step, args.steps, args.rate, args.warmup))
        losses.append(loss.item())
        step += 1
        if step % 50 == 0 or step == args.steps:
            spent = time.time() - clock
            print(f"step {step}/{args.steps} loss {np.mean(losses):.4f} "
                  f"{len(losses) * args.batch_tokens / spent:.0f} tokens/s", flush=True)
            seconds, clock, losses = seconds + spent, time.time(), []
        if step % 500 == 0 or step == args.steps:
            scores = perplexities(model, heldout)
            print("held-out perplexity", {d: round(p, 3) for d, p in scores.items()}, flush=True)
            torch.save({"model": model.state_dict(), "config": model.c, "step": step,
                        "seconds": seconds, "optimizer": optimizer.state_dict()},
                       checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
            clock = time.time()


if __name__ == "__main__":
    main()
