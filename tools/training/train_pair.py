"""Trains the default pair, stage by stage, and exports a pair after each.

Started again at any time, it goes on where it stopped. With an empty work folder it
begins with the pair in `--pair` where that is one of these shapes, else from nothing.

On a CPU the target grows from 3 over 6 to 12 layers; on a GPU all 12 are trained at once.
After the last step of a stage the rate falls to zero (in a copy), the target samples
text, the drafter is distilled, and `WORK/export/NAME` holds the pair with its
`evaluation.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
CONTEXT = 1024


@dataclass(frozen=True)
class Stage:
    """Trains a shape up to a step, counted over all stages."""

    layers: int
    steps: int
    decay: int
    rate: float
    rows: int
    length: int

    def batch(self, length: int, workers: int) -> tuple[object, ...]:
        """Options for rows of that length, as many as hold a worker's part of a step's tokens."""
        rows = self.rows * self.length // (length * workers)
        return "--rows", max(1, rows), "--length", length


@dataclass(frozen=True)
class Profile:
    stages: tuple[Stage, ...]
    base_steps: int  # of the drafter on text, before it is distilled
    distil_steps: int
    sample_batches: int
    sample_rows: int
    drafter_rows: int
    drafter_length: int
    prompts: int  # of a domain, in the evaluation
    options: tuple[str, ...]  # for train.py


PROFILES = {
    # 4,224 to 8,064 tokens a step; 6, 19 and 50 million tokens in all.
    "cpu": Profile(
        (
            Stage(3, 1500, 250, 3e-3, 11, 384),
            Stage(6, 4000, 400, 2.5e-3, 11, 384),
            Stage(12, 8000, 800, 2e-3, 21, 384),
        ),
        1500,
        1500,
        12,
        64,
        11,
        384,
        80,
        (),
    ),
    # 131,072 tokens a step, 260 million in all.
    "cuda": Profile(
        (Stage(12, 1600, 400, 3e-3, 128, 1024),),
        600,
        800,
        8,
        1024,
        128,
        384,
        200,
        ("--processes", "14", "--save-every", "60", "--corpus-share", "0.1"),
    ),
    # Whether every script runs: a minute, and a pair of no use.
    "smoke": Profile(
        (Stage(3, 2, 2, 3e-3, 2, 64), Stage(6, 3, 2, 3e-3, 2, 64)),
        2,
        2,
        1,
        4,
        2,
        64,
        2,
        ("--warmup", "1"),
    ),
}


class Driver:
    def __init__(self, args: argparse.Namespace):
        self.args, self.work, self.profile = (
            args,
            args.work,
            PROFILES[args.profile or args.device.split(":")[0]],
        )
        self.tokenizer = self.work / "tokenizer" / "tokenizer.json"
        # Keep freed memory: mapping large tensors anew costs as much as their arithmetic.
        self.environment = os.environ | {
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": "-1",
            "MALLOC_TOP_PAD_": "500000000",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, script: str, *options: object, launcher: Sequence[object] = ()) -> None:
        command = [sys.executable, *map(str, launcher), str(HERE / script), *map(str, options)]
        print("+", *command[1:], flush=True)
        subprocess.run(command, env=self.environment, check=True)

    def run_workers(self, script: str, *options: object) -> None:
        """Runs a script that several processes share, compiled where PyTorch can."""
        workers = self.args.workers
        launcher = ("-m", "torch.distributed.run", "--nproc_per_node", workers, "--")
        can_compile = torch.__version__ >= "2" and self.profile is not PROFILES["smoke"]
        compiled = ("--compile",) if can_compile else ()
        self.run(script, *options, *compiled, launcher=launcher if workers > 1 else ())

    def common(self) -> list[object]:
        return [
            "--corpus",
            self.args.corpus,
            "--tokenizer",
            self.tokenizer,
            "--device",
            self.args.device,
        ]

    def trained_before(self) -> dict:
        """What the shipped pair says of its training; empty for a pair of another kind."""
        path = self.args.pair / "training.json" if self.args.pair else None
        return json.loads(path.read_text()) if path and path.exists() else {}

    def prepare(self) -> None:
        """Tokenizer and first checkpoints, from the shipped pair where there is one."""
        if self.tokenizer.exists():
            return
        before = self.trained_before()
        if not before:
            self.run(
                "train_tokenizer.py", "--corpus", self.args.corpus, "--out", self.tokenizer.parent
            )
            return
        layers = json.loads((self.args.pair / "target" / "config.json").read_text())[
            "num_hidden_layers"
        ]
        for part, folder in (("target", f"target-{layers}"), ("drafter", "drafter-base")):
            self.run(
                "resume.py",
                "--folder",
                self.args.pair / part,
                "--out",
                self.work / folder / "checkpoint.pt",
                "--step",
                before["step"] if part == "target" else 0,
                "--tokens",
                before["tokens"],
            )
        # Last, because it says that all of this is done.
        self.tokenizer.parent.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer_config.json", "tokenizer.json"):
            shutil.copy(self.args.pair / "target" / name, self.tokenizer.with_name(name))

    def begun(self, stage: Stage) -> Path:
        return self.work / f"target-{stage.layers}" / "checkpoint.pt"

    def train(self, stage: Stage, previous: Stage | None) -> Path:
        """The stage's decayed checkpoint."""
        folder = self.work / f"target-{stage.layers}"
        start = folder / "start.pt"
        if previous is not None and not self.begun(stage).exists() and not start.exists():
            self.run(
                "grow.py",
                "--checkpoint",
                self.begun(previous),
                "--layers",
                stage.layers,
                "--out",
                start,
            )
        options = [
            "--shape",
            folder.name,
            *self.common(),
            "--work",
            folder,
            "--rate",
            stage.rate,
            "--steps",
            stage.steps,
            *self.profile.options,
        ]
        workers = self.args.workers
        self.run_workers(
            "train.py", *options, *stage.batch(stage.length, workers), "--start", start
        )
        decayed = folder / "decayed.pt"
        if not decayed.exists():
            # Attention makes long rows slow; only the decay sees rows of the whole context.
            whole = stage.batch(CONTEXT if stage.layers == 12 else stage.length, workers)
            self.run_workers("train.py", *options, *whole, "--decay", stage.decay)
        return decayed

    def distil(self, stage: Stage, target: Path) -> Path:
        p, folder, base = (
            self.profile,
            self.work / f"drafter-{stage.layers}",
            self.work / "drafter-base",
        )
        self.run_workers(
            "train.py",
            "--shape",
            "drafter",
            *self.common(),
            "--work",
            base,
            "--rate",
            3e-3,
            "--rows",
            max(1, p.drafter_rows // self.args.workers),
            "--length",
            p.drafter_length,
            "--steps",
            p.base_steps,
            *p.options,
        )
        sampled = folder / "sampled.npz"
        folder.mkdir(exist_ok=True)
        self.run(
            "sample.py",
            "--target",
            target,
            *self.common(),
            "--out",
            sampled,
            "--batches",
            p.sample_batches,
            "--rows",
            p.sample_rows,
        )
        processes = ["--processes", "14"] if "--processes" in p.options else []
        self.run_workers(
            "distil.py",
            "--target",
            target,
            *self.common(),
            "--sampled",
            sampled,
            "--start",
            base / "checkpoint.pt",
            "--work",
            folder,
            "--steps",
            p.distil_steps,
            "--rows",
            max(1, p.drafter_rows // self.args.workers),
            "--length",
            p.drafter_length,
            *processes,
        )
        return folder / "checkpoint.pt"

    def export(self, stage: Stage, target: Path, drafter: Path) -> None:
        out = self.work / "export" / f"pair-{stage.layers}"
        # Twelve layers in bfloat16 are more than the repository should hold.
        int8 = ["--int8"] if stage.layers == 12 else []
        self.run(
            "export.py",
            "--checkpoint",
            target,
            "--tokenizer",
            self.tokenizer,
            "--out",
            out / "target",
            *int8,
        )
        self.run(
            "export.py",
            "--checkpoint",
            drafter,
            "--tokenizer",
            self.tokenizer,
            "--out",
            out / "drafter",
        )
        self.run("reference.py", "--pair", out)
        self.run("resume.py", "--describe", target, "--out", out / "training.json")
        with open(out / "evaluation.md", "w", encoding="utf-8") as file:
            subprocess.run(
                [
                    sys.executable,
                    HERE / "evaluate.py",
                    out,
                    "--corpus",
                    self.args.corpus,
                    "--device",
                    self.args.device,
                    "--count",
                    str(self.profile.prompts),
                ],
                env=self.environment,
                stdout=file,
                check=True,
            )

    def all(self) -> None:
        self.prepare()
        stages = self.profile.stages
        latest = max((n for n, s in enumerate(stages) if self.begun(s).exists()), default=0)
        for n, stage in enumerate(stages):
            done = self.work / "export" / f"pair-{stage.layers}" / "evaluation.md"
            if (
                n < latest
                and not self.begun(stage).exists()
                or done.exists()
                and done.stat().st_size
            ):
                continue
            target = self.train(stage, stages[n - 1] if n else None)
            self.export(stage, target, self.distil(stage, target))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pair", type=Path, help="go on with this pair, e.g. models/default")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that train together, on a CPU"
    )
    parser.add_argument("--profile", choices=sorted(PROFILES), help="by the device if absent")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    Driver(args).all()


if __name__ == "__main__":
    main()
