"""Measures an exported pair: held-out perplexity and how much is accepted.

For each domain, texts are sampled from the target after held-out openings, at
temperature 1 unless told otherwise. Over their positions it reports

* alpha, the mean of sum_x min(p(x), q(x)): the chance that one draft is taken;
* for rounds of g drafts, the expected number of accepted draft tokens. With
  r_l = p(x_l) / q(x_l) on a sampled draft, token verification takes l or more
  tokens with the probability prod_{i<=l} min(r_i, 1), and block verification
  (Sun et al. 2024) with p_l = min(p_{l-1} r_l, 1); each round then emits one
  token more.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from data import DOMAINS
from export import load_folder
from model import Llama
from sample import continue_rows
from tokenizer import Tokenizer
from train import heldout_documents, perplexities

OPENING = 16  # ids of the held-out document that a text begins with
ROUND_STARTS = (24, 40, 64, 96, 128, 160)  # where drafts begin in the texts
LENGTH = 192
DRAFTS = (2, 4, 6, 8)


@torch.no_grad()
def draft_ratios(target: Llama, drafter: Llama, prefix: torch.Tensor, count: int,
                 temperature: float) -> torch.Tensor:
    """p(x)/q(x) for `count` drafts in a row after each prefix: rows by drafts."""
    cache = drafter.new_cache(prefix.shape[0], prefix.shape[1] + count)
    step, drafts, q = prefix, [], []
    for _ in range(count):
        law = (drafter.next_logits(step, cache) / temperature).softmax(-1)
        step = torch.multinomial(law, 1)
        drafts.append(step)
        q.append(law.gather(1, step))
    drafted = torch.cat(drafts, dim=1)
    logits = target(torch.cat((prefix, drafted), dim=1))[:, prefix.shape[1] - 1:-1]
    laws = (logits / temperature).softmax(-1)
    return laws.gather(2, drafted[..., None])[..., 0] / torch.cat(q, dim=1)


def accepted(ratios: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean chance that draft l and all before it are taken: token, block."""
    token = ratios.clamp(max=1).cumprod(dim=1)
    block, p = [], torch.ones(ratios.shape[0])
    for r in ratios.unbind(1):
        p = (p * r).clamp(max=1)
        block.append(p)
    return token.mean(0), torch.stack(block).mean(1)


@torch.no_grad()
def acceptance(target: Llama, drafter: Llama, openings: torch.Tensor, temperature: float) -> dict:
    rows = continue_rows(target, openings, LENGTH, temperature)
    alphas = []
    for part in rows.split(16):
        p, q = ((m(part)[:, OPENING - 1:] / temperature).softmax(-1) for m in (target, drafter))
        alphas.append(torch.minimum(p, q).sum(-1).flatten())
    ratios = torch.cat([draft_ratios(target, drafter, rows[:, :n], max(DRAFTS), temperature)
                        for n in ROUND_STARTS])
    token, block = (chance.cumsum(0) for chance in accepted(ratios))
    return {
        "alpha": round(torch.cat(alphas).mean().item(), 4),
        "rounds": len(ratios),
        "token": {g: round(token[g - 1].item(), 3) for g in DRAFTS},
        "block": {g: round(block[g - 1].item(), 3) for g in DRAFTS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", type=Path, required=True, help="holds target/ and drafter/")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=2, help="texts per held-out opening")
    parser.add_argument("--documents", type=int, help="held-out documents per domain; all if absent")
    parser.add_argument("--temperature", type=float, default=1.0)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(7)
    target, drafter = load_folder(args.pair / "target"), load_folder(args.pair / "drafter")
    tokenizer = Tokenizer(args.pair / "target" / "tokenizer.json")
    heldout = heldout_documents(tokenizer, args.corpus, args.documents)
    report = {"perplexity": {
        name: {d: round(p, 2) for d, p in perplexities(model, heldout).items()}
        for name, model in (("target", target), ("drafter", drafter))
    }}
    for domain in DOMAINS:
        openings = [torch.from_numpy(doc[:OPENING]) for doc in heldout[domain]
                    if len(doc) >= OPENING]
        report[domain] = acceptance(target, drafter, torch.stack(openings * args.repeats),
                                    args.temperature)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
