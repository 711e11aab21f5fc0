#!/usr/bin/env python3
"""The cost of a pair's round, by parts, and a timeline of them.

One verifier and one drafter, a core each, one request at a time. Prints
* the duration of a forward pass of 1 to 9 rows, of the target and of the drafter (pass_bench),
* by draft length the duration of a round: the step (forward pass, verification and bookkeeping),
  the wait for the draft, the drafter's part of that, and the rest of the round trip compared with a
  bare round trip of gRPC (echo_bench),
* a timeline of some rounds from the verifier's and the drafter's traces.

Lengths alternate. Steps are means over all rounds, waits over those whose draft did not come early.
"""
import argparse
import json
import statistics
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from bench_support import Service, add_common_flags, progress, table, write_json

ROWS = (1, 2, 3, 4, 5, 7, 9)
CONTEXT = 128
PASSES = 100


def pass_seconds(args, model: Path, core: str) -> dict[int, float]:
    """Seconds per pass by number of rows: the medians of three turns."""
    asked = "".join(f"1 {rows} {CONTEXT} {PASSES}\n" for _ in range(3) for rows in ROWS)
    run = subprocess.run([args.build / "bin" / "pass_bench", "--model", model, "--cores", core],
                         input=asked, text=True, capture_output=True, check=True)
    seconds = [json.loads(line)["seconds"] for line in run.stdout.splitlines()[1:]]
    return {rows: statistics.median(seconds[i::len(ROWS)]) for i, rows in enumerate(ROWS)}


def echo_seconds(args) -> float:
    command = [args.build / "bin" / "echo_bench", "--client-core", args.cores[0], "--server-core",
               args.cores[1]]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)["median"]


def parts(service: Service, flags: list[str]) -> dict[str, float]:
    """Mean milliseconds of a round's parts with these flags."""
    before = service.metrics()
    run = service.bench(flags)
    gained = {name: value - before.get(name, 0) for name, value in service.metrics().items()}

    def mean(name: str) -> float:
        return 1e3 * gained.get(f"{name}_seconds_sum", 0) / max(
            gained.get(f"{name}_seconds_count", 0), 1)

    tokens_per_round = run["completion_tokens"] / run["rounds"]
    # A request's first step processes its prompt and gives its first token.
    prompts = gained["request_prefill_time_seconds_sum"]
    steps = gained["engine_step_seconds_count"] - gained["request_prefill_time_seconds_count"]
    return {"tokens": tokens_per_round, "token_ms": run["itl_ms"]["mean"],
            "round": run["itl_ms"]["mean"] * tokens_per_round,
            "step": 1e3 * (gained["engine_step_seconds_sum"] - prompts) / steps,
            "wait": mean("draft_round_trip"), "drafting": mean("draft_drafting")}


def spans(path: Path) -> list[dict]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                found += scope["spans"]
    return found


def attribute(span: dict, name: str) -> str:
    return next((str(next(iter(a["value"].values())))
                 for a in span.get("attributes", []) if a["key"] == name), "")


def timeline(folder: Path, rounds: int) -> str:
    """Lines for one request: when its rounds began and ended, and when the drafter sent the
    draft."""
    drafts = next(s for s in reversed(spans(folder / "drafter.trace"))
                  if len(s.get("events", [])) > rounds + 4)
    sent = {attribute(event,
                      "outrider.round"): int(event["timeUnixNano"]) for event in drafts["events"]
            if event["name"] == "draft sent"}
    own = [s for s in spans(folder / "verifier.trace") if s["name"] == "round"
           and s["traceId"] == drafts["traceId"]]
    chosen = sorted(own, key=lambda s: int(s["startTimeUnixNano"]))[3:3 + rounds]
    zero = int(chosen[0]["startTimeUnixNano"])
    lines = []
    for span in chosen:
        begin, end = ((int(span[f"{edge}TimeUnixNano"]) - zero) / 1e6 for edge in ("start", "end"))
        at = sent.get(attribute(span, "outrider.round"))
        draft = f"{(at - zero) / 1e6:6.2f} draft sent" if at else " " * 17
        lines.append(f"{begin:6.2f} plan  {draft}  {end:6.2f} verdict: "
                     f"{attribute(span, 'outrider.tokens.accepted')} of "
                     f"{attribute(span, 'outrider.tokens.drafted')} accepted")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_flags(parser)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 4, 6, 8])
    parser.add_argument("--cores", nargs=2, default=["0", "1"], metavar=("VERIFIER", "DRAFTER"))
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()

    passes = {name: pass_seconds(args, model, core) for name, model, core in (
        ("target", args.target, args.cores[0]), ("drafter", args.drafter, args.cores[1]))}
    print(table(["rows of a pass", *map(str, ROWS)],
                [[f"{name}, ms", *(f"{1e3 * by_rows[rows]:.3f}" for rows in ROWS)]
                 for name, by_rows in passes.items()]
                + [[f"{name}, of one row", *(f"{by_rows[rows] / by_rows[1]:.2f}" for rows in ROWS)]
                   for name, by_rows in passes.items()]))
    load = ["--requests", args.requests, "--max-tokens", args.max_tokens, "--temperature",
            args.temperature]
    ways = {"plain": ["--speculation",
                      "off"]} | {f"g = {g}": ["--draft-length", g] for g in args.lengths}
    runs: dict[str, list[dict]] = {name: [] for name in ways}
    echoes = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        with Service(args, "round", args.target, drafter=args.drafter, ahead=True,
                     cores=args.cores[0], drafter_cores=args.cores[1],
                     flags=["--trace-file", folder / "verifier.trace"],
                     drafter_flags=["--trace-file", folder / "drafter.trace"]) as service:
            for repetition in range(args.repetitions):
                echoes.append(echo_seconds(args))
                for way, flags in ways.items():
                    runs[way].append(parts(service, [*load, *flags]))
                    progress(f"{repetition + 1}/{args.repetitions} {way}: "
                             f"{runs[way][-1]['token_ms']:.3f} ms a token")
        drawn = timeline(folder, 6)
    echo = 1e3 * statistics.median(echoes)
    rows = []
    for way, measured in runs.items():
        m = {key: statistics.median(run[key] for run in measured) for key in measured[0]}
        speed = statistics.median(p["token_ms"] / run["token_ms"]
                                  for p, run in zip(runs["plain"], measured))
        rest = m["wait"] - m["drafting"]
        drafts = ["-"] * 4 if way == "plain" else [f"{m['wait']:.2f}", f"{m['drafting']:.2f}",
                                                   f"{rest:.2f}", f"{rest / echo:.1f}"]
        rows.append([way, f"{m['tokens']:.2f}", f"{m['round']:.2f}", f"{m['step']:.2f}", *drafts,
                     f"{100 * min(m['step'] / m['round'], 1):.0f} %", f"{speed:.2f}"])
    print(f"\nA bare round trip of gRPC: {echo:.3f} ms\n")
    print(table(["a round", "tokens", "ms", "step", "wait for the draft", "of it drafting",
                 "the rest", "of a bare round trip", "verifier busy", "speed, of plain"], rows))
    print(f"\nMilliseconds:\n\n{drawn}")
    write_json(args, {"passes": passes, "echo_ms": echo, "runs": runs})


if __name__ == "__main__":
    main()
