#!/usr/bin/env python3
"""Stop rules against constant draft lengths, through the services: tokens per round, discard and
verification rates (SpecDec++, section 2.1: discarded draft tokens, and rounds, both per emitted
token) and tokens/s.

The target has additional layers that change nothing (deepen_checkpoint), so that drafts pay.
Settings alternate within a repetition; speeds are ratios to the turn's best constant length,
medians over repetitions. Prints Markdown.
"""
import argparse
import statistics
import tempfile
from pathlib import Path

from bench_support import (Service, add_common_flags, command_line, deepen, progress, table,
                           write_json)

LENGTHS = [2, 3, 4, 5, 6]
RULES = {"confidence": [0.2, 0.3, 0.4], "entropy": [2.0, 2.5], "head": [0, 0.6, 0.7, 0.8]}


def settings(most: int) -> dict[str, list[str]]:
    out = {f"length {n}": ["--draft-length", n] for n in LENGTHS}
    for rule, thresholds in RULES.items():
        for threshold in thresholds:
            name = f"{rule} {threshold:g}" if threshold else f"{rule}, its own threshold"
            flags = ["--draft-length", most, "--stop-rule", rule]
            out[name] = flags + (["--stop-threshold", threshold] if threshold else [])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_flags(parser)
    parser.add_argument("--layers", type=int, default=64, help="added to the target")
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--most", type=int, default=12, help="longest draft under a stop rule")
    parser.add_argument("--repetitions", type=int, default=2)
    args = parser.parse_args()

    runs: dict[str, list[dict]] = {}
    with tempfile.TemporaryDirectory() as folder:
        target = deepen(args, args.target, args.layers, Path(folder))
        with Service(args, "stop", target, drafter=args.drafter, ahead=True,
                     flags=["--kv-tokens", 8192]) as service:
            common = ["--concurrency", args.concurrency, "--requests", args.requests,
                      "--max-tokens", args.max_tokens, "--temperature", args.temperature]
            # The head finds its bias in this run.
            service.bench([*common, "--draft-length", args.most, "--stop-rule", "head"])
            for repetition in range(args.repetitions):
                for name, flags in settings(args.most).items():
                    runs.setdefault(name, []).append(service.bench([*common, *flags]))
                progress(f"repetition {repetition + 1} of {args.repetitions}")

    best = [max(runs[f"length {n}"][i]["tokens_per_second"] for n in LENGTHS)
            for i in range(args.repetitions)]
    rows = []
    for name, own in runs.items():
        tokens, rounds, drafted, accepted = (sum(run[key] for run in own) for key in
                                             ["completion_tokens", "rounds", "drafted_tokens",
                                              "accepted_tokens"])
        over_best = [run["tokens_per_second"] / b for run, b in zip(own, best)]
        rows.append([name, f"{drafted / rounds:.2f}", f"{tokens / rounds:.2f}",
                     f"{(drafted - accepted) / tokens:.3f}",
                     f"{rounds / tokens:.3f}",
                     f"{statistics.median(run['tokens_per_second'] for run in own):.0f}",
                     f"{statistics.median(over_best):.2f}"])
    print(f"`{command_line()}`\n")
    print(table(["stop rule", "draft tokens per round", "tokens per round", "D", "V", "tokens/s",
                 "of the best constant length"], rows))
    write_json(args, runs)


if __name__ == "__main__":
    main()
