"""Turns an exported model back into a checkpoint, or tells how far a checkpoint is.

Checkpoints stay on the machine that trains; what is shipped are weights alone. Training
goes on from those with a fresh optimizer.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from export import load_checkpoint, load_folder
from train import save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="an exported folder, to make a checkpoint of")
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=0)
    parser.add_argument("--describe", type=Path, help="a checkpoint, to write its numbers")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.describe:
        saved = load_checkpoint(args.describe)[1]
        numbers = {
            "step": saved["step"],
            "tokens": saved["tokens"],
            "seconds": round(saved["seconds"]),
        }
        args.out.write_text(json.dumps(numbers) + "\n")
        return
    model = load_folder(args.folder)
    save(
        args.out,
        model=model.state_dict(),
        config=model.c,
        step=args.step,
        tokens=args.tokens,
        seconds=0.0,
        optimizer=None,
    )


if __name__ == "__main__":
    main()
