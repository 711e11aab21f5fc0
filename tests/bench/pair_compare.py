#!/usr/bin/env python3
"""Compares Outrider's pair_gpu_bench with Hugging Face transformers' generate and assisted
generation: the same shapes, prompts, lengths, draft tokens and random numbers. Both programs keep
their models loaded and run one text at a time, alternately; the figures to trust are the ratios of
adjacent turns.

Without torch or transformers (see --python), or without the device in torch, that half is skipped,
with a message.
"""
import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from bench_support import ROOT, command_line, progress, table
from pair_cases import Case, add_pair_flags, cases_of, expect_counts, median_ratio, pair_flags
from turn_process import TurnProcess


class Half(TurnProcess):
    """One of the two programs."""

    def __init__(self, name: str, command: list[str], speculates):
        super().__init__(name, command)
        self.speculates = speculates  # whether it supports drafts with this many sessions
        self.device = self.skipped = None

    def start(self) -> dict:
        reply = super().start()
        self.skipped, self.device = reply.get("skipped"), reply.get("device")
        return reply

    def runs(self, case: Case) -> bool:
        return self.skipped is None and (case.draft == 0 or self.speculates(case.sessions))


class Comparison:
    def __init__(self, args, halves: list[Half]):
        self.args = args
        self.halves = halves
        self.cases = [case for case in cases_of(args) if any(half.runs(case) for half in halves)]
        self.runs: dict[tuple[str, Case], list[dict]] = {}

    def measure(self) -> None:
        started = last = time.monotonic()
        for repetition in range(-1, self.args.repetitions):
            # The first repetition warms up; one is measured in any case.
            now = time.monotonic()
            if repetition > 0 and 2 * now - last - started > self.args.seconds:
                progress(f"{repetition} of {self.args.repetitions} repetitions in "
                         f"{self.args.seconds:g} s")
                break
            last = now
            for case in self.cases:
                for half in self.halves[::1 if repetition % 2 == 0 else -1]:
                    if half.runs(case):
                        figures = half.turn(case.line())
                        expect_counts(half.name, case, figures, self.args.tokens, self.args.seed)
                        if repetition >= 0:
                            self.runs.setdefault((half.name, case), []).append(figures)

    def rates(self, half: Half, case: Case) -> list[float] | None:
        runs = self.runs.get((half.name, case))
        return runs and [run["tokens_per_second"] for run in runs]

    def rows(self) -> list[dict]:
        rows = []
        for case in self.cases:
            row = case.describe()
            for half in self.halves:
                rates = self.rates(half, case)
                if rates is None:
                    continue
                last = self.runs[half.name, case][-1]
                row[half.name] = {"tokens_per_second": statistics.median(rates),
                                  "all_tokens_per_second": rates,
                                  "over_plain": median_ratio(
                                      rates, self.rates(half, Case(case.sessions, 0))),
                                  "accepted_per_round": last["accepted"] / last["rounds"],
                                  "first_seconds": last["first_seconds"]}
            ours, theirs = (self.rates(half, case) for half in self.halves)
            if ours and theirs:
                row["ratio"] = median_ratio(ours, theirs)
            rows.append(row)
        return rows

    def expect_same_texts(self) -> None:
        """If weights are the same and the models decide: all texts of session 0 are plain
        decoding's."""
        texts = {(name,
                  case): run["text"] for (name, case), runs in self.runs.items() for run in runs
                 if case.acceptance is None}
        (first, text), *others = texts.items()
        for key, other in others:
            if other != text:
                at = next(i for i, (a, b) in enumerate(zip(text, other)) if a != b)
                sys.exit(f"{key} and {first} speak differently from token {at} on: {text}, {other}")
        print(f"the same text {len(texts)} times")


def markdown(rows: list[dict], halves: list[Half]) -> str:
    def cell(row: dict, name: str, what: str, digits: int) -> str:
        return f"{row[name][what]:.{digits}f}" if name in row else "-"

    ours, theirs = (half.name for half in halves)
    lines = [[str(row["sessions"]), str(row["draft"]) if row["draft"] else "plain",
              str(row.get("acceptance", "-")),
              cell(row, ours, "accepted_per_round", 2) if row["draft"] else "-",
              cell(row, ours, "tokens_per_second", 1), cell(row, theirs, "tokens_per_second", 1),
              f"{row['ratio']:.2f}" if "ratio" in row else "-",
              cell(row, ours, "over_plain", 2), cell(row, theirs, "over_plain", 2)] for row in rows]
    return table(["sessions", "draft", "acceptance", "accepted", f"{ours} tokens/s",
                  f"{theirs} tokens/s", "ratio", f"{ours}, of plain", f"{theirs}, of plain"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pair_flags(parser)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--python", default=sys.executable,
                        help="one that imports torch and transformers")
    parser.add_argument("--seconds", type=float, default=60,
                        help="no repetition but the first begins that would end after these")
    parser.add_argument("--cache", choices=("dynamic", "static"), default="dynamic",
                        help="of transformers' plain decoding; the static one's forward pass is "
                             "compiled on a GPU")
    parser.add_argument("--expect-same-text", action="store_true",
                        help="fail if the two speak differently; for --target and --drafter in f32")
    args = parser.parse_args()
    if args.repetitions < 1:
        parser.error("--repetitions is less than 1")

    script = Path(__file__).with_name("transformers_bench.py")
    halves = [Half("Outrider", [str(args.build / "bin" / "pair_gpu_bench"), *pair_flags(args),
                                "--turns", "yes"],
                   lambda sessions: True),
              Half("transformers", [args.python, "-B", str(script), *pair_flags(args), "--cache",
                                    args.cache, "--turns"], lambda sessions: sessions == 1)]
    for half in halves:
        half.start()  # one after another: if memory is short, transformers' half reports it
        print(f"{half.name}: " + (f"skipped: {half.skipped}" if half.skipped else half.device),
              flush=True)
        if halves[0].skipped is not None:
            break
    else:
        shapes = {"llama": "the shapes of Llama 3.1 8B and 3.2 1B", "tiny": "tiny shapes"}
        models = args.target or shapes[args.shape]
        print(f"{models}, {args.dtype}, prompts of {args.prompt} tokens, texts of {args.tokens}",
              flush=True)
        comparison = Comparison(args, halves)
        comparison.measure()
        rows = comparison.rows()
        print(markdown(rows, halves))
        if args.expect_same_text:
            comparison.expect_same_texts()
        if args.json:
            settings = {k: str(v) for k, v in vars(args).items() if k != "json"}
            args.json.write_text(json.dumps(
                {"command": command_line(), "settings": settings,
                 "halves": {half.name: {"device": half.device, "skipped": half.skipped}
                            for half in halves},
                 "cases": rows}, indent=1), encoding="utf-8")
    for half in halves:
        half.stop()


if __name__ == "__main__":
    main()
