#!/usr/bin/env python3
"""Speed and accepted length of a model pair, with and without speculation.

Starts one verifier and one drafter pinned to a core each, runs `outrider bench` over the prompts for
every setting in turn, several times over, and prints a Markdown table of medians. Settings take turns
within each repetition, so that a noisy neighbour hits all of them; the figures to trust are the ratios.
"""
import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Pair:
    """A verifier and its drafter, as processes."""

    def __init__(self, args: argparse.Namespace):
        self.address = f"127.0.0.1:{free_port()}"
        self.outrider = args.build / "bin" / "outrider"
        common = ["--metrics", ""] + ["--bf16-activations"] * args.bf16_activations
        self.processes = []
        for name, flags in [
            ("outrider-verifier",
             ["--model", args.target, "--listen", self.address, "--cores", "0", *common]),
            ("outrider-drafter",
             ["--model", args.drafter, "--verifier", self.address, "--listen", "", "--cores", "1",
              *common]),
        ]:
            log = open(args.log_dir / f"{name}.log", "w", encoding="utf-8")
            self.processes.append(
                subprocess.Popen([args.build / "bin" / name, *flags], stdout=log, stderr=log))
        for _ in range(600):
            status = subprocess.run([self.outrider, "status", "--verifier", self.address, "--json"],
                                    capture_output=True, text=True, check=False)
            if status.returncode == 0 and json.loads(status.stdout).get("drafters"):
                return
            time.sleep(0.1)
        sys.exit(f"the pair did not come up; see {args.log_dir}")

    def bench(self, args: argparse.Namespace, flags: list[str]) -> dict:
        command = [self.outrider, "bench", "--verifier", self.address, "--prompts", args.prompts,
                   "--concurrency", str(args.concurrency), "--requests", str(args.requests),
                   "--max-tokens", str(args.max_tokens), "--temperature", str(args.temperature),
                   "--ignore-eos", "--json", *flags]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: {run.stderr}")
        return json.loads(run.stdout)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


def settings(lengths: list[int]) -> dict[str, list[str]]:
    out = {"off": ["--speculation", "off"]}
    for rule in ("token", "block"):
        for length in lengths:
            out[f"{rule}, g = {length}"] = ["--rule", rule, "--draft-length", str(length)]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cpu")
    parser.add_argument("--target", type=Path, default=ROOT / "models" / "default" / "target")
    parser.add_argument("--drafter", type=Path, default=ROOT / "models" / "default" / "drafter")
    parser.add_argument("--prompts", type=Path, default=ROOT / "tests" / "bench" / "prompts.jsonl")
    parser.add_argument("--lengths", default="2,4,6,8")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--bf16-activations", action="store_true", help="start both services so")
    parser.add_argument("--log-dir", type=Path, default=Path("/tmp"))
    parser.add_argument("--json", type=Path, help="also write every run's figures to this file")
    args = parser.parse_args()

    cases = settings([int(g) for g in args.lengths.split(",")])
    runs: dict[str, list[dict]] = {name: [] for name in cases}
    pair = Pair(args)
    try:
        for repetition in range(args.repetitions):
            for name, flags in cases.items():
                # Another seed each repetition: the accepted length is a mean over all of them.
                seed = ["--seed", str(1 + repetition * args.requests)]
                runs[name].append(pair.bench(args, flags + seed))
                print(f"  {repetition + 1}/{args.repetitions} {name}: "
                      f"{runs[name][-1]['tokens_per_second']:.0f} tokens/s", file=sys.stderr)
    finally:
        pair.stop()

    domains = sorted(runs["off"][0]["accepted_per_round_by_domain"])
    head = ["setting", "tokens/s", "of off", "accepted per round", *domains]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    off = [r["tokens_per_second"] for r in runs["off"]]
    for name, rows in runs.items():
        speed = [r["tokens_per_second"] for r in rows]
        ratio = statistics.median(s / o for s, o in zip(speed, off))
        accepted = "-"
        per_domain = ["-"] * len(domains)
        if name != "off":
            accepted = f"{statistics.mean(r['accepted_per_round'] for r in rows):.2f}"
            per_domain = [
                f"{statistics.mean(r['accepted_per_round_by_domain'][d] for r in rows):.2f}"
                for d in domains]
        print(f"| {name} | {statistics.median(speed):.0f} | {ratio:.2f} | {accepted} | "
              + " | ".join(per_domain) + (" |" if domains else ""))
    if args.json:
        args.json.write_text(json.dumps(runs, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
