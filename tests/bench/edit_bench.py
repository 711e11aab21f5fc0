#!/usr/bin/env python3
"""Code editing: tokens/s where the text repeats a function of its prompt with names changed.

The target is a model constructed to copy (make_copying_checkpoint), deepened until a step takes
some milliseconds. Compared are: no drafts, the default drafter at fixed lengths, prompt lookup and
the suffix automaton at fixed lengths (each a separate verifier, --policy fixed:ARM,..), and the
controller, for which all of these compete. Settings alternate within a cell (a temperature, a rule,
a concurrency), figures are medians; trust the ratios. With --store the same client asks a second
time, for a function with one more line, with and without --store-tokens.
"""
import argparse
import json
import re
import statistics
import subprocess
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from bench_support import ROOT, Service, add_common_flags, command_line, progress, table, write_json

RENAMES = ["line=msg", "items=values", "key=pos", "number=count"]
CELLS = {"greedy": ["--temperature", "0"],
         "block": ["--temperature", "1", "--rule", "block"],
         "multipath-block": ["--temperature", "1", "--rule", "multipath-block"]}
# A fixed arm and its replacements where the text gives fewer tokens.
LOCAL = {f"{source}-{length}": ",".join(f"{source}-{kind}{n}" for n in lengths if n <= length
                                        for kind in ("strong-", ""))
         for source, lengths in [("lookup", (8, 4)), ("suffix", (16, 8, 4))] for length in lengths}


def arm_totals(service: Service) -> dict[tuple[str, str], float]:
    """Totals by arm and quantity: rounds, tokens, seconds."""
    with urllib.request.urlopen(f"http://{service.metrics_address}/metrics") as page:
        found = re.findall(r'^outrider_spec_decode_arm_(rounds|tokens|seconds)_total'
                           r'\{.*?arm="([^"]+)".*?\} (\S+)$',
                           page.read().decode(), re.M)
    return {(arm, what): float(value) for what, arm, value in found}


def arms_used(before: dict, after: dict) -> dict[str, dict[str, float]]:
    """The arms that had rounds in between, the most used first."""
    gained = {key: value - before.get(key, 0) for key, value in after.items()}
    total = sum(n for (_, what), n in gained.items() if what == "rounds")
    used = sorted(((n, arm) for (arm, what), n in gained.items() if what == "rounds" and n > 0),
                  reverse=True)
    return {arm: {"share": n / total, "tokens_per_round": gained[arm, "tokens"] / n,
                  "tokens_per_second": gained[arm, "tokens"] / max(gained[arm, "seconds"], 1e-9)}
            for n, arm in used}


def copying_target(args, folder: Path) -> Path:
    tools = args.build / "bin"
    subprocess.run([tools / "make_copying_checkpoint", folder / "copying", args.target, *RENAMES],
                   check=True)
    subprocess.run([tools / "deepen_checkpoint", folder / "copying", folder / "deep",
                    str(args.layers)], check=True)
    return folder / "deep"


def service(args, name: str, target: Path, *, flags, drafter: bool) -> Service:
    flags = ["--bf16-activations", "--kv-tokens", "8192", *flags]
    if drafter:
        return Service(args, name, target, drafter=args.drafter, ahead=True, flags=flags)
    return Service(args, name, target, flags=flags)


def settings(args, cell: str) -> dict[str, tuple[str, list]]:
    """For each setting, its verifier and the request's flags."""
    out = {"off": ("adaptive", ["--speculation", "off"])}
    for length in args.lengths:
        out[f"draft-1x{length}"] = ("adaptive", ["--draft-length", length])
    if cell != "block":
        for length in args.lengths:
            out[f"draft-4x{length}"] = ("adaptive", ["--draft-length", length, "--paths", 4])
    out |= {name: (name, []) for name in LOCAL}
    out["adaptive"] = ("adaptive", [])
    return out


def run_cell(args, services: dict[str, Service], cell: str, concurrency: int) -> dict:
    speeds, per_round, arms = {}, {}, {}
    common = [*CELLS[cell], "--concurrency", concurrency, "--requests",
              max(args.requests, 2 * concurrency)]
    services["adaptive"].bench(common)  # lets the controller learn the costs
    for _ in range(args.repetitions):
        for name, (at, flags) in settings(args, cell).items():
            before = arm_totals(services[at])
            report = services[at].bench([*common, *flags])
            arms[name] = arms_used(before, arm_totals(services[at]))
            speeds.setdefault(name, []).append(report["tokens_per_second"])
            per_round.setdefault(name, []).append(report["completion_tokens"] / report["rounds"])
    return {"cell": cell, "concurrency": concurrency, "arms": arms["adaptive"],
            "speeds": {name: statistics.median(v) for name, v in speeds.items()},
            "ratios": {name: statistics.median(a / off for a, off in zip(v, speeds["off"]))
                       for name, v in speeds.items()},
            "of_best": statistics.median(speeds["adaptive"][r]
                                         / max(v[r] for name, v in speeds.items()
                                               if name != "adaptive")
                                         for r in range(args.repetitions)),
            "tokens_per_round": {name: statistics.median(v) for name, v in per_round.items()}}


def second_edits(args, folder: Path) -> Path:
    """The prompts with one more line in the function, after its first."""
    out = []
    for prompt in map(json.loads, args.prompts.read_text(encoding="utf-8").splitlines()):
        lines = prompt["prompt"].split("\n")
        indent = re.match(r" *", lines[1]).group()
        call = 'print("called")' if prompt["domain"] == "python" else 'Log("called");'
        lines.insert(1, indent + call)
        out.append(json.dumps(prompt | {"prompt": "\n".join(lines),
                                        "max_tokens": prompt["max_tokens"] + 6}))
    path = folder / "second.jsonl"
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    return path


def run_store(args, target: Path, folder: Path) -> dict:
    speeds, per_round = {}, {}
    first, second = args.prompts, second_edits(args, folder)
    for _ in range(args.repetitions):
        for name, tokens in [("without", 0), ("with", 100000)]:
            flags = ["--store-tokens", tokens]
            with service(args, f"edit-store-{tokens}", target, flags=flags,
                         drafter=True) as verifier:
                for prompts in [first, second]:
                    verifier.args.prompts = prompts
                    report = verifier.bench([*CELLS["greedy"], "--concurrency", 1])
                verifier.args.prompts = first
            speeds.setdefault(name, []).append(report["tokens_per_second"])
            per_round.setdefault(name, []).append(report["completion_tokens"] / report["rounds"])
    return {"speeds": {name: statistics.median(v) for name, v in speeds.items()},
            "ratio": statistics.median(a / b for a, b in zip(speeds["with"], speeds["without"])),
            "tokens_per_round": {name: statistics.median(v) for name, v in per_round.items()}}


def print_cells(args, cells: list[dict]) -> None:
    rows = []
    for cell in cells:
        speeds, ratios, per_round = cell["speeds"], cell["ratios"], cell["tokens_per_round"]

        def best(prefix: str) -> str:
            name = max((n for n in speeds if n.startswith(prefix)), key=lambda n: ratios[n])
            return f"{name}: {ratios[name]:.2f} ({per_round[name]:.2f})"

        rows.append([cell["cell"], str(cell["concurrency"]), f"{speeds['off']:.0f}", best("draft"),
                     best("lookup"), best("suffix"),
                     f"{ratios['adaptive']:.2f} ({per_round['adaptive']:.2f})",
                     f"{cell['of_best']:.2f}"])
    print(table(["", "at once", "off, tokens/s", "best drafter: of off (tokens a round)",
                 "best lookup", "best suffix", "adaptive", "adaptive of the best"], rows))
    print()
    rows = [[cell["cell"], str(cell["concurrency"]),
             ", ".join(f"{arm} {used['share']:.0%} ({used['tokens_per_round']:.1f}, "
                       f"{used['tokens_per_second']:.0f}/s)"
                       for arm, used in list(cell["arms"].items())[:args.arms])] for cell in cells]
    print(table(["", "at once",
                 "arms of adaptive: share of rounds (tokens a round, tokens/s of a session "
                 "meanwhile)"],
                rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_flags(parser)
    parser.set_defaults(prompts=ROOT / "tests" / "bench" / "edit_prompts.jsonl")
    parser.add_argument("--cells", nargs="*", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 4],
                        help="of the drafter's drafts")
    parser.add_argument("--layers", type=int, default=32,
                        help="that change nothing, on top of the target's three")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--store", action="store_true", help="also measure --store-tokens")
    parser.add_argument("--arms", type=int, default=6, help="arms to name in the second table")
    args = parser.parse_args()

    results: dict = {"cells": []}
    with tempfile.TemporaryDirectory() as folder:
        target = copying_target(args, Path(folder))
        if args.cells:
            with ExitStack() as stack:
                policies = {"adaptive": "adaptive"} | {name: f"fixed:{arms}"
                                                       for name, arms in LOCAL.items()}
                services = {name: stack.enter_context(
                    service(args, f"edit-{name}", target, flags=["--policy", policy],
                            drafter=name == "adaptive"))
                            for name, policy in policies.items()}
                for concurrency in args.concurrency:
                    for cell in args.cells:
                        results["cells"].append(run_cell(args, services, cell, concurrency))
                        write_json(args, results)  # keeps partial results if the rest is aborted
                        over_off = results["cells"][-1]["ratios"]["adaptive"]
                        progress(f"{cell}, {concurrency} at once: adaptive over off {over_off:.2f}")
        if args.store:
            results["store"] = run_store(args, target, Path(folder))

    print(f"`{command_line()}`\n")
    if args.cells:
        print_cells(args, results["cells"])
    if args.store:
        store = results["store"]
        print(f"\nSecond edits, tokens/s with the store over without: {store['ratio']:.2f}; tokens "
              f"a round {store['tokens_per_round']['with']:.2f} against "
              f"{store['tokens_per_round']['without']:.2f}")
    write_json(args, results)


if __name__ == "__main__":
    main()
