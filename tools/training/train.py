"""Trains a target on generated text and the corpus, for as long as it is left to.

The rate warms up and then stays (warm-up, stable, decay): training can go on at any time, and
`--decay STEPS` turns a checkpoint of the stable phase into a model to ship by letting the rate fall
to zero, in a checkpoint of its own. Matrix products run in bfloat16 where that is fast, weights and
the rest in float32. Started again, the script goes on from its checkpoint in the work folder.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import synthesis
import workers
from data import CORPUS_SHARE, Mixture, batches
from model import SHAPES, Config, Llama
from optimizer import Optimizer
from precision import fast_products, product_type
from tokenizer import Tokenizer

HELD_OUT_ROWS = 32
CHUNK = {"cpu": 256, "cuda": 16384}  # positions whose logits are in work at a time
PART = {"cpu": 2048, "cuda": 262144}  # positions whose activations are kept for the gradient


class HeadLoss(torch.autograd.Function):
    """Output matrix and cross-entropy, a chunk of positions at a time.

    The logits of a chunk stay in the cache, where those of a batch do not; the
    gradients are made on the way.
    """

    @staticmethod
    def forward(ctx, states, head, ids, weights, chunk):
        low_type = product_type(states.device.type)
        states, low = states.to(low_type), head.detach().to(low_type)
        by_states, by_head = torch.empty_like(states), torch.zeros_like(head)
        total = torch.zeros((), device=head.device)
        for at in range(0, len(states), chunk):
            part = slice(at, at + chunk)
            log_q = (states[part] @ low.t()).float().log_softmax(-1)
            total -= (log_q.gather(1, ids[part, None])[:, 0] * weights[part]).sum()
            by_logits = log_q.exp_()
            by_logits.scatter_add_(1, ids[part, None], torch.full_like(by_logits[:, :1], -1.0))
            by_logits = (by_logits * weights[part, None]).to(low_type)
            by_states[part] = by_logits @ low
            by_head += by_logits.t() @ states[part]
        ctx.save_for_backward(by_states, by_head)
        return total

    @staticmethod
    def backward(ctx, by_total):
        by_states, by_head = ctx.saved_tensors
        return by_states.float() * by_total, by_head * by_total, None, None, None


def weighted_loss(model: Llama, ids: torch.Tensor, weights: torch.Tensor, total, forward=None):
    """Cross-entropy of ids[:, 1:], each position by its weight's share of `total`."""
    device = ids.device.type
    with fast_products(device):
        states = (forward or model.hidden)(ids[:, :-1])
    with torch.autocast(device, enabled=False):
        return HeadLoss.apply(
            states.flatten(0, 1),
            model.embedding.weight,
            ids[:, 1:].flatten(),
            (weights / total).flatten(),
            CHUNK[device],
        )


def as_tensors(batch: tuple[np.ndarray, np.ndarray], device: str):
    ids, weights = batch
    return (
        torch.from_numpy(ids.astype(np.int64)).to(device, non_blocking=True),
        torch.from_numpy(weights).to(device, non_blocking=True),
    )


@torch.no_grad()
def held_out_loss(model: Llama, rows: list[tuple[np.ndarray, np.ndarray]], device: str) -> float:
    losses = []
    for batch in rows:
        ids, weights = as_tensors(batch, device)
        losses.append(weighted_loss(model, ids, weights, weights.sum()).item())
    return float(np.mean(losses))


def save(path: Path, **content) -> None:
    torch.save(content, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def step_loss(model: Llama, ids: torch.Tensor, weights: torch.Tensor, forward) -> torch.Tensor:
    """The loss of a step, whose gradients are added up a few rows at a time."""
    rows = max(1, PART[ids.device.type] // weights.shape[1])
    total, loss = weights.sum(), torch.zeros((), device=ids.device)
    for part, part_weights in zip(ids.split(rows), weights.split(rows)):
        part_loss = weighted_loss(model, part, part_weights, total, forward)
        part_loss.backward()
        loss += part_loss.detach()
    return loss


class Run:
    """A model in training, with what its checkpoint holds."""

    def __init__(self, shape: Config, device: str):
        self.model = Llama(shape).to(device)
        self.optimizer = Optimizer(self.model)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.fresh_at = 0  # the step at which the optimizer was new
        self.decay_from = 0  # the step at which the rate began to fall, in a decay

    def load(self, path: Path) -> None:
        saved = torch.load(
            path,
            map_location=self.model.embedding.weight.device,
            **({"weights_only": False} if torch.__version__ >= "2" else {}),
        )
        self.model.load_state_dict(saved["model"])
        self.step, self.tokens, self.seconds = saved["step"], saved["tokens"], saved["seconds"]
        self.fresh_at = self.step
        if saved["optimizer"] is not None:
            self.optimizer.load_state_dict(saved["optimizer"])
            self.fresh_at, self.decay_from = saved.get("fresh_at", 0), saved.get("decay_from", 0)

    def save(self, path: Path) -> None:
        save(
            path,
            model=self.model.state_dict(),
            config=self.model.c,
            step=self.step,
            tokens=self.tokens,
            seconds=self.seconds,
            optimizer=self.optimizer.state_dict(),
            fresh_at=self.fresh_at,
            decay_from=self.decay_from,
        )

    def rate(self, args: argparse.Namespace) -> float:
        if args.decay:
            return args.rate * (1 - (self.step - self.decay_from) / args.decay)
        return args.rate * min(1.0, (self.step - self.fresh_at + 1) / args.warmup)


def begin(run: Run, args: argparse.Namespace) -> tuple[Path, int]:
    """Loads what there is to go on with; where to save, and the step to stop at."""
    stable, decaying = args.work / "checkpoint.pt", args.work / "decaying.pt"
    candidates = [decaying, stable] if args.decay else [stable, args.start]
    source = next((p for p in candidates if p is not None and p.exists()), None)
    if source is not None:
        run.load(source)
    if args.decay and source == stable:
        run.decay_from = run.step
    print(
        f"{sum(p.numel() for p in run.model.parameters())} parameters, from step {run.step} "
        f"of {source}",
        flush=True,
    )
    return (decaying, run.decay_from + args.decay) if args.decay else (stable, args.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), required=True)
    parser.add_argument("--corpus", type=Path, help="a folder of real text; none if absent")
    parser.add_argument("--corpus-share", type=float, default=CORPUS_SHARE, help="of the tokens")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="a checkpoint to begin with (grow.py)")
    parser.add_argument("--steps", type=int, required=True, help="the step to stop at")
    parser.add_argument(
        "--decay",
        type=int,
        default=0,
        help="let the rate fall to zero over so many steps; writes decayed.pt",
    )
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--rows", type=int, default=11, help="of a process's batch")
    parser.add_argument("--length", type=int, default=384, help="of a row, in ids")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=0, help="that make the batches")
    parser.add_argument("--compile", action="store_true", help="torch.compile (PyTorch 2)")
    parser.add_argument("--save-every", type=float, default=300, help="seconds")
    args = parser.parse_args()

    workers.join()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(args.tokenizer)
    mixture = Mixture(tokenizer, args.corpus, args.seed, corpus_share=args.corpus_share)
    unseen = Mixture(tokenizer, None, args.seed, split=synthesis.HELD_OUT)
    held_out = [unseen.batch(n, 8, 512) for n in range(HELD_OUT_ROWS // 8)]
    run = Run(SHAPES[args.shape], args.device)
    checkpoint, last = begin(run, args)
    forward = torch.compile(run.model.hidden) if args.compile else run.model.hidden

    clock, saved_at, losses = time.time(), time.time(), []
    first = run.step * workers.COUNT + workers.RANK
    stream = batches(mixture, first, workers.COUNT, args.rows, args.length, args.processes)
    while run.step < last:
        ids, weights = as_tensors(next(stream), args.device)
        losses.append(step_loss(run.model, ids, weights, forward))
        run.optimizer.step(run.rate(args))
        run.step += 1
        run.tokens += weights.numel() * workers.COUNT
        if workers.RANK > 0:
            continue
        if run.step % 20 == 0 or run.step == last:
            mean, spent = torch.stack(losses).mean().item(), time.time() - clock
            print(
                f"step {run.step}/{last} loss {mean:.4f} {run.tokens / 1e6:.2f} M tokens "
                f"{len(losses) * weights.numel() * workers.COUNT / spent:.0f} tokens/s",
                flush=True,
            )
            run.seconds, clock, losses = run.seconds + spent, time.time(), []
        if time.time() - saved_at > args.save_every or run.step == last:
            print(
                f"held-out loss {held_out_loss(run.model, held_out, args.device):.4f}", flush=True
            )
            run.save(checkpoint)
            clock = saved_at = time.time()
    if args.decay and workers.RANK == 0:
        checkpoint.replace(args.work / "decayed.pt")


if __name__ == "__main__":
    main()
