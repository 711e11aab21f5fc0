"""cpu_race without any other engine: statistics, tables, what counts as a regression, what is
skipped. Fake programs answer for pass_bench and llama-batched-bench. Called by ctest:
cpu_race_test.py SOURCE_DIR BIN_DIR."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(sys.argv[1]) / "tests" / "bench"
sys.path.insert(0, str(BENCH))
from race_cases import Case, parse_case  # noqa: E402
from race_ratios import Ratio, markdown, our_ratios, ratio, regressions  # noqa: E402

# A pass takes 10 ms per sequence and 1 ms per further row, times `slower`.
PASS_BENCH = """import sys
print('{{"engine": "Outrider"}}', flush=True)
for line in sys.stdin:
    sequences, rows, context, passes = map(int, line.split())
    print('{{"seconds": %f}}' % ({slower} * (0.01 * sequences + 0.001 * (rows - 1))), flush=True)
"""
# 20 ms per sequence, 60 ms per prompt.
BATCHED_BENCH = """import sys
flags = dict(zip(sys.argv[1:], sys.argv[2:]))
if '--version' in sys.argv:
    print('version: 1234 (made up)')
else:
    print('{"t_pp": 0.06, "t_tg": %f}' % (0.02 * int(flags['-ntg']) * int(flags['-npl'])))
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable} -SE\n{text}", encoding="utf-8")
    path.chmod(0o755)


def test_ratios_are_of_paired_turns() -> None:
    # The machine slows down a hundredfold in the middle; paired turns remain comparable.
    assert ratio([2, 400, 4], [1, 200, 2]) == Ratio(2, 0)
    scattered = ratio([1, 2, 3, 4, 5], [1, 1, 1, 1, 1])
    assert (scattered.median, scattered.spread) == (3, 2), scattered
    for case in (Case("decode", 8), Case("prefill", 512), Case("plain")):
        assert parse_case(str(case)) == case


def test_regressions_are_beyond_both_spreads() -> None:
    stored = {"a": Ratio(2, 0.1), "b": Ratio(2, 0.1), "c": Ratio(2, 0.1), "gone": Ratio(2, 0.1)}
    now = {"a": Ratio(1.75, 0.1), "b": Ratio(1.85, 0.1), "c": Ratio(2.5, 0.1), "new": Ratio(0.1, 0)}
    slower = regressions(now, stored)
    assert len(slower) == 1 and slower[0].startswith("a: 1.75"), slower


def test_tables_say_what_was_not_measured() -> None:
    runs = {"bf16": {"decode 1": {"Outrider": [0.01, 0.02], "Outrider, exact": [0.02, 0.04],
                                  "OpenVINO": [0.03, 0.06]},
                     "verify 1": {"Outrider": [0.01, 0.01], "Outrider, exact": [0.02, 0.02]},
                     "verify 4": {"Outrider": [0.02, 0.02], "Outrider, exact": [0.03, 0.03]}},
            "texts": {"plain": {"Outrider": [0.01]}, "speculative": {"Outrider": [0.005]}}}
    lines = markdown(runs).splitlines()
    assert "| tokens/s | Outrider | Outrider, exact | OpenVINO | over OpenVINO |" in lines, lines
    assert "| decode 1 | 66.7 | 33.3 | 22.2 | 3.00 ± 0.00 |" in lines, lines
    assert "| verify 1 | 100.0 | 50.0 | - | - |" in lines, lines
    assert "| verify 4 | 2.00 ± 0.00 | 1.50 ± 0.00 | - |" in lines, lines
    assert "| speculative over plain | 2.00 ± 0.00 |" in lines, lines
    assert our_ratios(runs) == {"bf16, decode 1, over OpenVINO": Ratio(3, 0),
                                "bf16, verify 4, over our verify 1": Ratio(0.5, 0),
                                "texts, speculative, over our plain": Ratio(2, 0)}, our_ratios(runs)


def race(folder: Path, *flags) -> tuple[int, str, dict]:
    report = folder / "report.json"
    run = subprocess.run([sys.executable, "-B", BENCH / "cpu_race.py", "--build", folder / "build",
                          "--model", folder / "model", "--work", folder, "--precisions", "f32",
                          "--batches", "1,2", "--rows", "1,4", "--cores",
                          str(min(os.sched_getaffinity(0))), "--repetitions", "1", "--texts", "0",
                          "--json", report, *flags],
                         capture_output=True, text=True, check=False)
    return (run.returncode, run.stdout + run.stderr,
            json.loads(report.read_text("utf-8")) if report.exists() else {})


def test_race_compares_what_is_there() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code, out, _ = race(folder)
        assert code == 1 and "Outrider: " in out and "pass_bench does not exist" in out, out

        program(folder / "build" / "bin" / "pass_bench", PASS_BENCH.format(slower=1))
        program(folder / "llama" / "bin" / "llama-batched-bench", BATCHED_BENCH)
        (folder / "model-f32.gguf").touch()
        code, out, report = race(folder, "--llama-cpp", folder / "llama", "--openvino-python",
                                 folder / "none")
        assert code == 0, out
        assert f"OpenVINO is skipped: {folder / 'none'} does not exist" in out, out
        assert "transformers is skipped: --transformers-python is not given" in out, out
        assert "llama.cpp: 1234 (made up)" in out, out
        assert "| decode 2 | 100.0 | 50.0 | 2.00 ± 0.00 |" in out, out
        assert "| verify 4 | 1.30 ± 0.00 | 4.00 ± 0.00 |" in out, out
        ratios = report["ratios"]
        assert ratios["f32, prefill 512, over llama.cpp"]["median"] == 0.06 / 0.521, ratios

        stored = folder / "stored.json"
        stored.write_text(json.dumps(report), encoding="utf-8")
        code, out, _ = race(folder, "--llama-cpp", folder / "llama", "--against", stored)
        assert code == 0 and "no ratio has fallen" in out, out
        program(folder / "build" / "bin" / "pass_bench", PASS_BENCH.format(slower=1.5))
        code, out, _ = race(folder, "--llama-cpp", folder / "llama", "--against", stored)
        assert code == 1, out
        assert "f32, decode 1, over llama.cpp: 1.33 ± 0.00 now, 2.00 ± 0.00 stored" in out, out
        assert "over our" not in out, out  # all of our passes became slower by the same factor


for test in (test_ratios_are_of_paired_turns, test_regressions_are_beyond_both_spreads,
             test_tables_say_what_was_not_measured, test_race_compares_what_is_there):
    test()
print("cpu_race: OK")
