#!/usr/bin/env python3
"""Compares the predictions of `outrider plan`, from times measured here, with the measured layouts.

The default pair, both deepened by layers that change nothing (deepen_checkpoint), on two cores: the
verifier on core 0; a drafter on core 1 with an added round trip, or in the verifier's process and
on its core. First the times that the calculator needs are taken from metrics, with one request at a
time and none of the compared layouts; then each layout is measured with one request and with
several. Prints Markdown.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench_support import (Service, add_common_flags, command_line, deepen, progress, table,
                           write_json)

LAYOUTS = ("plain", "colocated", "split", "ahead")


def acceptance_of(tokens: float, length: int) -> float:
    """The acceptance rate for this many tokens per round: inverts the geometric series."""
    low, high = 0.0, 0.9999
    for _ in range(60):
        middle = (low + high) / 2
        expected = sum(middle ** i for i in range(length + 1))
        low, high = (middle, high) if expected < tokens else (low, middle)
    return low


def per_count(after: dict, before: dict, name: str) -> float:
    return (after[f"{name}_sum"] - before[f"{name}_sum"]) / max(
        after[f"{name}_count"] - before[f"{name}_count"], 1)


def calibrate(args, service: Service) -> dict:
    """Times in milliseconds, for one request and for several."""
    off, on = ["--speculation", "off"], ["--draft-length", args.draft_length]
    one = service.load([*load_flags(args), *off], 1, args.warm, args.seconds)
    many = service.load([*load_flags(args), *off], args.sessions, args.warm, args.seconds)
    before, drafter_before = service.metrics(), service.drafter_metrics()
    drafted = service.load([*load_flags(args), *on], 1, args.warm, args.seconds)
    after, drafter_after = service.metrics(), service.drafter_metrics()
    tokens = 1 + drafted["accepted_per_round"]
    draft_tokens = (after["spec_decode_num_draft_tokens_total"]
                    - before["spec_decode_num_draft_tokens_total"])
    received = after["draft_bytes_received_total"] - before["draft_bytes_received_total"]
    return {
        "t-verify": one["step_ms"],
        "t-verify-row": (many["step_ms"] - one["step_ms"])
        / (many["rows_per_step"] - one["rows_per_step"]),
        # From a plan's arrival to its draft, per depth: the passes and the time between them.
        "t-draft": 1e3 * per_count(after, before, "draft_drafting_seconds") / args.draft_length,
        "pass": 1e3 * per_count(drafter_after, drafter_before, "drafter_forward_seconds"),
        "rtt": 1e3 * (per_count(after, before, "draft_round_trip_seconds")
                      - per_count(after, before, "draft_drafting_seconds")),
        "acceptance": acceptance_of(tokens, args.draft_length),
        "draft-bytes": received / max(draft_tokens, 1),
    }


def draft_row_ms(args, service: Service, one_pass: float) -> float:
    """The time that another session adds to a drafter's pass."""
    before = service.drafter_metrics()
    service.load([*load_flags(args), "--draft-length", args.draft_length], args.sessions, args.warm,
                 args.seconds)
    after = service.drafter_metrics()
    rows = per_count(after, before, "drafter_batch_rows")
    return max(1e3 * per_count(after, before, "drafter_forward_seconds")
               - one_pass, 0) / max(rows - 1, 1e-9)


def load_flags(args) -> list:
    return ["--max-tokens", args.max_tokens, "--temperature", args.temperature]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_flags(parser)
    parser.add_argument("--layers", type=int, default=64, help="further layers of the target")
    parser.add_argument("--drafter-layers", type=int, default=40)
    parser.add_argument("--rtt-ms", type=float, default=20)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--draft-length", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--warm", type=float, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        target = deepen(args, args.target, args.layers, Path(folder))
        drafter = deepen(args, args.drafter, args.drafter_layers, Path(folder))

        def start(kind, **more):
            return stack.enter_context(Service(args, f"plan-{kind}", target, drafter=drafter,
                                               flags=["--policy", "fixed"],
                                               service_flags=["--kv-tokens",
                                                              512 * max(args.sessions, 8)],
                                               **more))

        split = start("split", rtt_ms=args.rtt_ms)
        services = {"plain": split, "split": split,
                    "ahead": start("ahead", rtt_ms=args.rtt_ms, ahead=True),
                    "colocated": start("inside", split=False, drafter_cores="0")}
        times = calibrate(args, split)
        times["t-draft-row"] = draft_row_ms(args, split, times["pass"])
        progress(", ".join(f"{k} {v:.3f}" for k, v in times.items()))

        runs = {(layout, n): [] for n in (1, args.sessions) for layout in LAYOUTS}
        hits = []
        for repetition in range(args.repetitions):
            for layout, n in list(runs) if repetition % 2 == 0 else list(runs)[::-1]:
                speculation = (["--speculation", "off"] if layout == "plain"
                               else ["--draft-length", args.draft_length])
                before = services["ahead"].drafter_metrics()
                run = services[layout].load([*load_flags(args), *speculation], n, args.warm,
                                            args.seconds)
                after = services["ahead"].drafter_metrics()
                if layout == "ahead" and n == 1:
                    verdicts = (after["drafter_ahead_verdicts_total"]
                                - before["drafter_ahead_verdicts_total"])
                    hits.append((after["drafter_ahead_hits_total"]
                                 - before["drafter_ahead_hits_total"])
                                / max(verdicts, 1))
                runs[layout, n].append(run["tokens_per_second"])
                progress(f"{repetition + 1}/{args.repetitions} {layout} of {n}: "
                         f"{run['tokens_per_second']:.0f} tokens/s, busy {run['busy']:.2f}, "
                         f"drafted {run['drafted_share']:.2f}")

        plan = ["plan", "--draft-length", args.draft_length, "--sessions", args.sessions, "--json"]
        for name in ("t-draft", "t-draft-row", "t-verify", "t-verify-row", "rtt", "acceptance"):
            plan += [f"--{name}", f"{max(times[name], 0):.4f}"]
        plan += ["--ahead-hits", f"{statistics.mean(hits):.3f}"]
        said = subprocess.run([str(a) for a in [args.build / "bin" / "outrider", *plan]],
                              capture_output=True, text=True, check=True)
        report = json.loads(said.stdout)

    print(f"`{command_line()}`\n")
    print("`outrider " + " ".join(str(a) for a in plan if a != "--json") + "`\n")
    print(f"A draft token took {times['draft-bytes']:.0f} bytes on the wire; of verdicts that were "
          f"worked ahead of, {statistics.mean(hits):.2f} were guessed.\n")
    rows = []
    for layout in report["layouts"]:
        row = [layout["layout"]]
        for n, key in ((1, "one_request_tokens_per_second"),
                       (args.sessions, "full_batch_tokens_per_second")):
            measured = statistics.median(runs[layout["layout"], n])
            row += [f"{layout[key]:.0f}", f"{measured:.0f}", f"{layout[key] / measured:.2f}"]
        rows.append(row)
    head = ["layout", *(f"{n}: {what}" for n in ("alone", f"{args.sessions} sessions")
                        for what in ("said, tokens/s", "measured", "said / measured"))]
    print(table(head, rows))
    write_json(args, {"times": times, "hits": hits, "report": report,
                      "runs": {f"{layout} {n}": values for (layout, n), values in runs.items()}})


if __name__ == "__main__":
    main()
