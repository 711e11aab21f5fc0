#!/usr/bin/env python3
"""Speed and accepted length of a model pair, with and without speculation.

Starts one verifier and one drafter pinned to a core each, runs `outrider bench` over the prompts
for every setting in turn, several times, and prints a Markdown table of medians. Settings alternate
within each repetition, so that a noisy neighbour affects all of them; the figures to trust are the
ratios.
"""
import argparse
import json
import statistics

from bench_support import Service, add_common_flags, progress


def settings(lengths: list[int]) -> dict[str, list[str]]:
    out = {"off": ["--speculation", "off"]}
    for rule in ("token", "block"):
        for length in lengths:
            out[f"{rule}, g = {length}"] = ["--rule", rule, "--draft-length", str(length)]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_flags(parser)
    parser.add_argument("--lengths", default="2,4,6,8")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--bf16-activations", action="store_true", help="start both services so")
    args = parser.parse_args()

    cases = settings([int(g) for g in args.lengths.split(",")])
    runs: dict[str, list[dict]] = {name: [] for name in cases}
    load = ["--concurrency", args.concurrency, "--requests", args.requests, "--max-tokens",
            args.max_tokens, "--temperature", args.temperature]
    with Service(args, "pair", args.target, drafter=args.drafter, ahead=True,
                 service_flags=["--bf16-activations"] * args.bf16_activations) as pair:
        for repetition in range(args.repetitions):
            for name, flags in cases.items():
                # A different seed in each repetition: the accepted length is a mean over all of
                # them.
                seed = ["--seed", str(1 + repetition * args.requests)]
                runs[name].append(pair.bench([*load, *flags, *seed]))
                progress(f"{repetition + 1}/{args.repetitions} {name}: "
                         f"{runs[name][-1]['tokens_per_second']:.0f} tokens/s")

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
