"""Deepens a trained target without changing what it computes.

After each block comes a copy of it whose output matrices are zero: the copy adds
nothing at first, and learns from there. Training goes on with `train.py --start`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from export import load_checkpoint
from model import Llama
from train import save


@torch.no_grad()
def deepen(small: Llama, layers: int) -> Llama:
    """A model of so many layers; the new ones are spread evenly."""
    large = Llama(replace(small.c, layers=layers))
    large.embedding.load_state_dict(small.embedding.state_dict())
    large.norm.load_state_dict(small.norm.state_dict())
    seen = -1
    for n, block in enumerate(large.blocks):
        source = n * small.c.layers // layers
        block.load_state_dict(small.blocks[source].state_dict())
        if source == seen:
            block.attention.out.weight.zero_()
            block.down.weight.zero_()
        seen = source
    return large


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a checkpoint")
    args = parser.parse_args()
    small, saved = load_checkpoint(args.checkpoint)
    large = deepen(small, args.layers)
    ids = torch.randint(small.c.vocab, (2, 64))
    with torch.no_grad():
        difference = (small(ids) - large(ids)).abs().max().item()
    assert difference < 1e-3, difference
    args.out.parent.mkdir(parents=True, exist_ok=True)
    save(
        args.out,
        model=large.state_dict(),
        config=large.c,
        step=saved["step"],
        tokens=saved["tokens"],
        seconds=saved["seconds"],
        optimizer=None,
    )
    print(
        f"{args.out}: {small.c.layers} to {args.layers} layers, logits differ by {difference:.1e}"
    )


if __name__ == "__main__":
    main()
