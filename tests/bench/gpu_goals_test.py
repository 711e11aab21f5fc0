"""gpu_goals on made-up results. Called by ctest: gpu_goals_test.py SOURCE_DIR BIN_DIR."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(sys.argv[1]) / "tests" / "bench" / "gpu_goals.py"


def judge(bench: dict | None, verification: dict | None) -> tuple[dict, str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in (("gpu_bench.json", bench), ("verify_gpu_bench.json", verification)):
            if content is not None:
                (folder / file).write_text(json.dumps(content), encoding="utf-8")
        run = subprocess.run([sys.executable, "-B", SCRIPT, folder], capture_output=True, text=True,
                             check=True)
        report = json.loads((folder / "goals.json").read_text(encoding="utf-8"))
    return {goal["goal"]: goal for goal in report}, run.stdout


def step(what: str, sessions: int, rows: int, seconds: float, floor: float,
         context: int = 1024) -> dict:
    return {"what": what, "sessions": sessions, "rows": rows, "context": context,
            "seconds": seconds, "floor_seconds": floor}


def test_each_goal() -> None:
    bench = {"context": 1024,
             "steps": [step("decode", 1, 1, 5e-3, 4.1e-3), step("decode", 8, 1, 5e-3, 4.1e-3),
                       step("decode", 8, 1, 50e-3, 4.1e-3, context=4096),  # another context
                       step("decode", 32, 1, 10e-3, 5e-3), step("verify", 1, 8, 5.5e-3, 4.1e-3),
                       step("verify", 32, 33, 40e-3, 20e-3)]}
    rules = {"block": {"milliseconds": 0.6}, "spectr": {"milliseconds": 1.0}}
    report, out = judge(bench, {"rules": rules, "pick_microseconds": {"greedy, 1 rows": 6.0}})
    got = [(goal["met"], round(goal["measured"], 3)) for goal in report.values()]
    assert got == [(True, 0.82), (True, 0.82), (False, 0.5), (True, 1.1), (True, 0.015),
                   (False, 0.025)], got
    assert "goals: 4 of 6 met" in out and out.count("MISSED") == 2, out


def test_what_is_missing_is_not_met() -> None:
    planned = {"what": "decode", "sessions": 8, "rows": 1, "context": 1024}
    report, out = judge({"context": 1024, "steps": [step("decode", 1, 1, 5e-3, 4.9e-3), planned]},
                        None)
    assert [goal["met"] for goal in report.values()] == [True, None, None, None], report
    assert "goals: 1 of 4 met" in out and out.count("not measured") == 3, out
    report, out = judge(None, None)
    assert "goals: 0 of 4 met" in out, out


for test in (test_each_goal, test_what_is_missing_is_not_met):
    test()
print("gpu_goals: OK")
