"""Distils the target into the drafter.

The drafter learns the target's whole next-token distribution, on batches of the training
text and on rows that the target sampled, in turns. The loss is the forward
Kullback-Leibler divergence at first, because it gives a sound model quickly; then the
total variation takes over, at the temperature at which the pair is to be used: a draft
token is accepted with the probability 1 - TV, and the longer a block the more of it counts.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import workers
from data import Mixture, batches
from export import load_any
from model import SHAPES, Llama
from precision import fast_products, product_type
from tokenizer import Tokenizer
from train import CHUNK, Run, as_tensors

KL_KEPT = 0.1  # the weight that KL keeps when TV has taken over
TV_WEIGHT = 2.0


def loss_gradient(p: torch.Tensor, logits: torch.Tensor, tv_share: float):
    """The loss's gradient by the drafter's logits, with KL and TV of each position.

    With q the softmax of the logits, KL(p, q) has the gradient q - p, and
    TV = sum of p - q where p > q has q * (mass of q where p > q - [p > q]).
    """
    log_q = logits.log_softmax(-1)
    q = log_q.exp()
    above = (p > q).float()
    kl = (p * ((p + 1e-20).log() - log_q)).sum(-1)
    tv = ((p - q) * above).sum(-1)
    by_tv = q * ((q * above).sum(-1, keepdim=True) - above)
    kl_weight = 1 - (1 - KL_KEPT) * tv_share
    return kl_weight * (q - p) + TV_WEIGHT * tv_share * by_tv, kl, tv


@torch.no_grad()
def head_backward(
    drafter: Llama,
    states: torch.Tensor,
    target: Llama,
    target_states: torch.Tensor,
    weights: torch.Tensor,
    temperature: float,
    tv_share: float,
):
    """Goes back through loss and output matrix, a chunk of positions at a time.

    Gives the gradient by `states` and by the output matrix, and mean KL and TV.
    """
    low = product_type(states.device.type)
    head, target_head = (m.embedding.weight.to(low) for m in (drafter, target))
    states, target_states = (s.flatten(0, 1).to(low) for s in (states, target_states))
    by_states, by_head = torch.empty_like(states), torch.zeros_like(drafter.embedding.weight)
    weights = (weights / weights.sum()).flatten()
    kl_sum = tv_sum = 0.0
    chunk = CHUNK[states.device.type]
    for at in range(0, len(states), chunk):
        part = slice(at, at + chunk)
        p = ((target_states[part] @ target_head.t()).float() / temperature).softmax(-1)
        logits = (states[part] @ head.t()).float() / temperature
        by_logits, kl, tv = loss_gradient(p, logits, tv_share)
        by_logits = (by_logits * (weights[part, None] / temperature)).to(low)
        by_states[part] = by_logits @ head
        by_head += by_logits.t() @ states[part]
        kl_sum += (kl * weights[part]).sum()
        tv_sum += (tv * weights[part]).sum()
    return by_states.float(), by_head, kl_sum.item(), tv_sum.item()


@torch.no_grad()
def start_embedding(drafter: Llama, target: Llama, ids: torch.Tensor) -> None:
    """Gives the drafter the target's embedding, in as few dimensions as it has.

    Of all matrices of that width, the one that comes closest to the target's logits over
    its states, for states whose components have unit variance.
    """
    states = target.hidden(ids).flatten(0, 1).float()
    values, vectors = torch.linalg.eigh(states.t() @ states / len(states))
    root = vectors * values.clamp(min=1e-6).sqrt() @ vectors.t()
    u, s, _ = torch.linalg.svd(target.embedding.weight @ root, full_matrices=False)
    width = drafter.c.hidden
    drafter.embedding.weight.copy_(u[:, :width] * s[:width])


class Sampled:
    """Batches of the rows of sample.py: the sampled part counts, the prompt does not.

    A batch is a function of seed and number, so that a run that was stopped goes on with the
    batches of an unbroken one.
    """

    def __init__(self, path: Path, rows: int, seed: int):
        saved = np.load(path)
        self.rows, self.begins, self.count = saved["rows"], saved["begins"], rows
        self.seed = seed

    def batch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng((self.seed, number))
        chosen = rng.integers(len(self.rows), size=self.count)
        places = np.arange(1, self.rows.shape[1])
        weights = (places[None] >= self.begins[chosen, None]).astype(np.float32)
        return self.rows[chosen], weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="a checkpoint or a folder")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--sampled", type=Path, help="the rows of sample.py; none if absent")
    parser.add_argument("--start", type=Path, help="a drafter to begin with, trained by train.py")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument(
        "--tv-from",
        type=float,
        default=0.3,
        help="the share of the steps at which TV begins to replace KL",
    )
    parser.add_argument("--tv-full", type=float, default=0.6, help="the share at which it has")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--rows", type=int, default=11)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="torch.compile (PyTorch 2)")
    args = parser.parse_args()

    workers.join()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(args.tokenizer)
    target = load_any(args.target).to(args.device).requires_grad_(False)
    run, checkpoint = Run(SHAPES["drafter"], args.device), args.work / "checkpoint.pt"
    mixture = Mixture(tokenizer, args.corpus, args.seed)
    if checkpoint.exists():
        run.load(checkpoint)
    elif args.start is not None and args.start.exists():
        run.model.load_state_dict(load_any(args.start).state_dict())
    else:
        ids = as_tensors(mixture.batch(0, args.rows, args.length), args.device)[0]
        start_embedding(run.model, target, ids)
    sampled = Sampled(args.sampled, args.rows, args.seed) if args.sampled else None
    text_steps = (run.step + 1) // 2 if sampled else run.step  # so far
    first = text_steps * workers.COUNT + workers.RANK
    stream = batches(mixture, first, workers.COUNT, args.rows, args.length, args.processes)
    target_hidden, drafter_hidden = (
        torch.compile(m.hidden) if args.compile else m.hidden for m in (target, run.model)
    )
    print(
        f"{sum(p.numel() for p in run.model.parameters())} parameters, from step {run.step}",
        flush=True,
    )

    clock, saved_at, found = time.time(), time.time(), ([], [])
    while run.step < args.steps:
        turn = run.step % 2 if sampled else 0
        number = run.step * workers.COUNT + workers.RANK
        ids, weights = as_tensors(sampled.batch(number) if turn else next(stream), args.device)
        done = run.step / args.steps
        tv_share = min(max((done - args.tv_from) / (args.tv_full - args.tv_from), 0.0), 1.0)
        device = ids.device.type
        with fast_products(device):
            with torch.no_grad():
                target_states = target_hidden(ids[:, :-1])
            states = drafter_hidden(ids[:, :-1])
        by_states, by_head, kl, tv = head_backward(
            run.model, states, target, target_states, weights, args.temperature, tv_share
        )
        states.backward(by_states.view_as(states))
        run.model.embedding.weight.grad += by_head
        run.optimizer.step(args.rate * min((run.step + 1) / args.warmup, 1.0, 1.25 * (1 - done)))
        found[turn].append((kl, tv))
        run.step += 1
        run.tokens += weights.numel() * workers.COUNT
        if workers.RANK > 0:
            continue
        if run.step % 20 == 0 or run.step == args.steps:
            spent = time.time() - clock
            parts = [
                "{} KL {:.4f} TV {:.4f}".format(name, *np.mean(f, axis=0))
                for name, f in zip(("text", "sampled"), found)
                if f
            ]
            print(
                f"step {run.step}/{args.steps} {', '.join(parts)} "
                f"{sum(map(len, found)) * weights.numel() * workers.COUNT / spent:.0f} tokens/s",
                flush=True,
            )
            run.seconds, clock, found = run.seconds + spent, time.time(), ([], [])
        if time.time() - saved_at > 300 or run.step == args.steps:
            run.save(checkpoint)
            saved_at = time.time()


if __name__ == "__main__":
    main()
