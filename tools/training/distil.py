"""Distils the target into the drafter.

The drafter learns the target's whole next-token distribution, on rows of the
corpus and on rows that the target sampled, in turns. The loss is the forward
Kullback-Leibler divergence; in the last part of the steps the total-variation
distance takes over, since a draft token drawn at temperature 1 is accepted
with the probability 1 - TV.

The target is run once per row: its final states are kept in memory, and the
logits are made from them whenever the row comes up again.
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
from train import optimizer_for, rate_at, apply

TV_FROM, TV_FULL = 0.4, 0.7  # shares of the steps between which TV replaces KL
KL_KEPT = 0.1  # the weight that KL keeps
TV_WEIGHT = 2.0
CHUNK = 128  # positions whose logits are in work at a time, to stay in the cache


class Lessons:
    """Rows of ids in random order, with the target's final states for them."""

    def __init__(self, target: Llama, rows: np.ndarray, seed: int):
        self.target = target
        self.rows = rows
        self.states = torch.empty(*rows.shape, target.c.hidden, dtype=torch.bfloat16)
        self.known = np.zeros(len(rows), dtype=bool)
        self.rng = np.random.default_rng(seed)
        self.order: list[int] = []

    def batch(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        count = tokens // self.rows.shape[1]
        if len(self.order) < count:
            self.order = self.rng.permutation(len(self.rows)).tolist()
        chosen, self.order = self.order[:count], self.order[count:]
        new = [n for n in chosen if not self.known[n]]
        if new:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                self.states[new] = self.target.hidden(self.ids(new)).bfloat16()
            self.known[new] = True
        return self.ids(chosen), self.states[chosen]

    def ids(self, chosen: list[int]) -> torch.Tensor:
        return torch.from_numpy(self.rows[chosen].astype(np.int64))


def loss_gradient(p: torch.Tensor, logits: torch.Tensor, tv_share: float):
    """The loss's gradient by the drafter's logits, with the sums of KL and TV.

    With q the softmax of the logits, KL(p, q) has the gradient q - p, and
    TV = sum of p - q where p > q has q * (mass of q where p > q - [p > q]).
    """
    log_q = logits.log_softmax(-1)
    q = log_q.exp()
    above = (p > q).float()
    kl = (p * ((p + 1e-20).log() - log_q)).sum()
    tv = ((p - q) * above).sum()
    by_tv = q * ((q * above).sum(-1, keepdim=True) - above)
    kl_weight = 1 - (1 - KL_KEPT) * tv_share
    return kl_weight * (q - p) + TV_WEIGHT * tv_share * by_tv, kl.item(), tv.item()


@torch.no_grad()
def head_backward(drafter: Llama, states: torch.Tensor, target_head: torch.Tensor,
                  target_states: torch.Tensor, tv_share: float):
    """Goes back through loss and output matrix, a chunk of positions at a time.

    Gives the gradient by `states` and by the output matrix, and mean KL and TV.
    """
    head = drafter.embedding.weight.bfloat16()
    states = states.flatten(0, 1).bfloat16()
    target_states = target_states.flatten(0, 1)
    by_states, by_head = torch.empty_like(states), torch.zeros_like(drafter.embedding.weight)
    kl_sum, tv_sum, positions = 0.0, 0.0, len(states)
    for at in range(0, positions, CHUNK):
        part = slice(at, at + CHUNK)
        p = (target_states[part] @ target_head.t()).float().softmax(-1)
        logits = (states[part] @ head.t()).float()
        by_logits, kl, tv = loss_gradient(p, logits, tv_share)
        by_logits = (by_logits / positions).bfloat16()
        by_states[part] = by_logits @ head
        by_head += by_logits.t() @ states[part]
        kl_sum, tv_sum = kl_sum + kl, tv_sum + tv
    return by_states.float(), by_head, kl_sum / positions, tv_sum / positions


@torch.no_grad()
def start_embedding(drafter: Llama, lessons: Lessons) -> None:
    """Gives the drafter the target's embedding, in as few dimensions as it has.

    Of all matrices of that width, the one that comes closest to the target's
    logits over its states, for states whose components have unit variance.
    """
    _, states = lessons.batch(2 ** 14)
    states = states.flatten(0, 1).float()
    values, vectors = torch.linalg.eigh(states.t() @ states / len(states))
    root = vectors * values.clamp(min=1e-6).sqrt() @ vectors.t()
    u, s, _ = torch.linalg.svd(lessons.target.embedding.weight @ root, full_matrices=False)
    width = drafter.c.hidden
    drafter.embedding.weight.copy_(u[:, :width] * s[:width])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="an exported folder")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--sampled", type=Path, required=True, help="the rows of sample.py")
    parser.add_argument("--corpus-rows", type=int, default=4096, help="of a whole context each")
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
    target_head = target.embedding.weight.detach().bfloat16()
    optimizer = optimizer_for(drafter, args.rate)
    checkpoint, step, seconds = args.work / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        drafter.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, seconds = saved["step"], saved["seconds"]
    corpus = Mixture(tokenizer, args.corpus, args.seed)
    corpus_rows = corpus.batch(args.corpus_rows, target.c.max_positions)[:, :-1]
    lessons = [Lessons(target, corpus_rows.astype(np.int16), args.seed + step),
               Lessons(target, np.load(args.sampled), args.seed + step)]
    if step == 0:
        start_embedding(drafter, lessons[1])
    print(f"{sum(p.numel() for p in drafter.parameters())} parameters, from step {step}, "
          f"{lessons[0].rows.size} corpus tokens, {lessons[1].rows.size} sampled", flush=True)

    clock, divergences = time.time(), ([], [])
    while step < args.steps:
        ids, target_states = lessons[step % 2].batch(args.batch_tokens)
        tv_share = min(max((step / args.steps - TV_FROM) / (TV_FULL - TV_FROM), 0.0), 1.0)
        with torch.autocast("cpu", torch.bfloat16):
            states = drafter.hidden(ids)
        by_states, by_head, kl, tv = head_backward(
            drafter, states, target_head, target_states, tv_share)
        states.backward(by_states.view_as(states))
        drafter.embedding.weight.grad += by_head
        apply(drafter, optimizer, rate_at(step, args.steps, args.rate, args.warmup))
        divergences[step % 2].append((kl, tv))
        step += 1
        if step % 100 == 0 or step == args.steps:
            spent = time.time() - clock
            parts = ["{} KL {:.4f} TV {:.4f}".format(name, *np.mean(found, axis=0))
                     for name, found in zip(("corpus", "sampled"), divergences)]
            speed = sum(map(len, divergences)) * args.batch_tokens / spent
            print(f"step {step}/{args.steps} {', '.join(parts)} {speed:.0f} tokens/s", flush=True)
            seconds, clock, divergences = seconds + spent, time.time(), ([], [])
        if step % 500 == 0 or step == args.steps:
            torch.save({"model": drafter.state_dict(), "config": drafter.c, "step": step,
                        "seconds": seconds, "optimizer": optimizer.state_dict()},
                       checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)


if __name__ == "__main__":
    main()
