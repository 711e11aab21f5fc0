#!/usr/bin/env python3
"""Compares the results of gpu_bench and verify_gpu_bench with the goals of docs/gpu_kernels.md.

    gpu_goals.py FOLDER    FOLDER has gpu_bench.json and verify_gpu_bench.json; missing results are
                           not judged. Writes FOLDER/goals.json.
"""

import json
import sys
from pathlib import Path


def find(steps: list, what: str, sessions: int, rows: int, context: int) -> dict | None:
    wanted = (what, sessions, rows, context)
    for step in steps:
        if (step["what"], step["sessions"], step["rows"], step["context"]) == wanted:
            return step if "seconds" in step else None  # it may not have been reached, or not fit
    return None


def goals(bench: dict, verification: dict) -> list[tuple[str, float | None, float, str]]:
    """[(goal, measured, limit, "at least" or "at most")]; measured is None if it is missing."""
    steps = bench.get("steps", [])
    context = bench.get("context", 0)
    result = []
    for sessions in (1, 8, 32):
        step = find(steps, "decode", sessions, 1, context)
        share = step["floor_seconds"] / step["seconds"] if step else None
        result.append((f"decode, {sessions} sessions: share of the floor", share, 0.8, "at least"))
    one = find(steps, "decode", 1, 1, context)
    eight = find(steps, "verify", 1, 8, context)
    ratio = eight["seconds"] / one["seconds"] if one and eight else None
    result.append(("verify 8 rows of a session: times of 1 row", ratio, 1.15, "at most"))
    # The step whose drafts verify_gpu_bench verifies: 32 sessions of 4 sequences of 8 tokens.
    forward = find(steps, "verify", 32, 33, context)
    for rule, measured in (verification["rules"] if verification else {}).items():
        share = measured["milliseconds"] / 1e3 / forward["seconds"] if forward else None
        result.append((f"verification by {rule}: share of the forward pass", share, 0.02,
                       "at most"))
    return result


def met(measured: float | None, limit: float, sense: str) -> bool | None:
    if measured is None:
        return None
    return measured >= limit if sense == "at least" else measured <= limit


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    judged = goals(read(folder / "gpu_bench.json"), read(folder / "verify_gpu_bench.json"))
    report = []
    for goal, measured, limit, sense in judged:
        verdict = met(measured, limit, sense)
        words = {True: "met", False: "MISSED", None: "not measured"}[verdict]
        shown = "-" if measured is None else f"{measured:.3f}"
        print(f"{goal:<70} {shown:>8}  {sense} {limit:<5} {words}")
        report.append({"goal": goal, "measured": measured, "sense": sense, "limit": limit,
                       "met": verdict})
    print(f"goals: {sum(g['met'] is True for g in report)} of {len(report)} met")
    (folder / "goals.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
