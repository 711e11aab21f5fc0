"""Distils the target into the drafter.

The drafter learns the target's whole next-token distribution on corpus text
and on text that the target sampled, half and half. The loss is the forward
Kullback-Leibler divergence; in the last part of the steps the total-variation
distance takes over, since a draft token drawn at temperature 1 is accepted
with the probability 1 - TV.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from data import Mixture
from export import load_folder
from model import DRAFTER, Llama
from tokenizer import Tokenizer
from train import logits_of, optimizer_for, rate_at, update

LENGTH_SHORT, LENGTH_LONG = 256, 512
TV_FROM, TV_FULL = 0.4, 0.7  # shares of the steps between which TV replaces KL
KL_KEPT = 0.1  # the weight that KL keeps
TV_WEIGHT = 2.0


def gradient(logits: torch.Tensor, p: torch.Tensor, tv_share: float):
    """The loss's gradient by the drafter's logits, with the mean KL and TV.

    With q the softmax of the logits, KL(p, q) has the gradient q - p, and
    TV = sum of p - q where p > q has q * (mass of q where p > q - [p > q]).
    """
    log_q = logits.log_softmax(-1)
    q = log_q.exp()
    above = p > q
    tv = ((p - q) * above).sum(-1)
    kl = (torch.special.xlogy(p, p) - p * log_q).sum(-1)
    kl_weight = 1 - (1 - KL_KEPT) * tv_share
    by_tv = q * ((q * above).sum(-1, keepdim=True) - above.float())
    by_logits = kl_weight * (q - p) + TV_WEIGHT * tv_share * by_tv
    return by_logits / p[..., 0].numel(), kl.mean().item(), tv.mean().item()


class SampledRows:
    """Random windows of the rows that `sample.py` wrote."""

    def __init__(self, path: Path, seed: int):
        self.rows = np.load(path).astype(np.int64)
        self.rng = np.random.default_rng(seed)

    def batch(self, rows: int, length: int) -> np.ndarray:
        chosen = self.rows[self.rng.integers(len(self.rows), size=rows)]
        at = self.rng.integers(2) * (chosen.shape[1] - length)
        return chosen[:, at:at + length]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="an exported folder")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--sampled", type=Path, help="rows of sample.py, for half of the batch")
    parser.add_argument("--start", type=Path, help="a checkpoint to take the first weights from")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(args.target / "tokenizer.json")
    target, drafter = load_folder(args.target), Llama(DRAFTER)
    if args.start:
        drafter.load_state_dict(torch.load(args.start)["model"])
    optimizer = optimizer_for(drafter, args.rate)
    checkpoint, step, seconds = args.work / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        drafter.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, seconds = saved["step"], saved["seconds"]
    corpus = Mixture(tokenizer, args.corpus, seed=args.seed + step)
    sampled = SampledRows(args.sampled, seed=args.seed + step) if args.sampled else None

    clock, divergences = time.time(), []
    while step < args.steps:
        done = step / args.steps
        length = LENGTH_LONG if done >= 0.7 else LENGTH_SHORT
        use_sampled = sampled is not None and step % 2 == 1
        batch = (sampled if use_sampled else corpus).batch(args.batch_tokens // length, length)
        ids = torch.from_numpy(batch[:, :length])
        with torch.no_grad():
            p = logits_of(target, ids).softmax(-1)
        logits = logits_of(drafter, ids)
        tv_share = min(max((done - TV_FROM) / (TV_FULL - TV_FROM), 0.0), 1.0)
        with torch.no_grad():
            by_logits, kl, tv = gradient(logits, p, tv_share)
        update(drafter, optimizer, (logits * by_logits).sum(),
               rate_at(step, args.steps, args.rate, args.warmup))
        divergences.append((kl, tv, use_sampled))
        step += 1
        if step % 50 == 0 or step == args.steps:
            spent = time.time() - clock
            parts = []
            for name, kind in (("corpus", False), ("sampled", True)):
                mine = [(k, t) for k, t, s in divergences if s == kind]
                if mine:
                    parts.append("{} KL {:.4f} TV {:.4f}".format(name, *np.mean(mine, axis=0)))
            print(f"step {step}/{args.steps} {', '.join(parts)} "
                  f"{len(divergences) * args.batch_tokens / spent:.0f} tokens/s", flush=True)
            seconds, clock, divergences = seconds + spent, time.time(), []
        if step % 500 == 0 or step == args.steps:
            torch.save({"model": drafter.state_dict(), "config": drafter.c, "step": step,
                        "seconds": seconds, "optimizer": optimizer.state_dict()},
                       checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)


if __name__ == "__main__":
    main()
