"""pair_compare at tiny shapes on the CPU: counts match the random numbers, and with the same
weights all texts are the same. Called by ctest: pair_compare_test.py SOURCE_DIR BIN_DIR.
OUTRIDER_PYTHON names a Python with torch and transformers; without those the comparison's other
half is skipped, which is then what is tested."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, BIN = Path(sys.argv[1]), Path(sys.argv[2])
TINY = ["--device", "cpu", "--shape", "tiny", "--dtype", "f32", "--prompt", "20", "--tokens", "24",
        "--repetitions", "1"]


def compare(*flags: str) -> tuple[dict, str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        program = [sys.executable, "-B", SOURCE / "tests" / "bench" / "pair_compare.py"]
        run = subprocess.run([*program, "--build", BIN.parent, "--json", report,
                              "--python", os.environ.get("OUTRIDER_PYTHON", sys.executable), *TINY,
                              *flags],
                             capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        return json.loads(report.read_text(encoding="utf-8")), run.stdout


def test_counts() -> None:
    # pair_compare itself checks the counts of every run against the random numbers.
    report, out = compare("--draft", "3", "--acceptance", "0.6", "--sessions", "1,2")
    skipped = report["halves"]["transformers"]["skipped"]
    assert (f"transformers: skipped: {skipped}" in out) == (skipped is not None), out
    cases = [(row["sessions"], row["draft"]) for row in report["cases"]]
    assert cases == [(1, 0), (1, 3), (2, 0), (2, 3)], out
    for row in report["cases"]:
        assert row["Outrider"]["tokens_per_second"] > 0, row
        beside = skipped is None and (row["draft"] == 0 or row["sessions"] == 1)
        assert ("transformers" in row) == ("ratio" in row) == beside, row
    print(f"counts: the other half {'ran' if skipped is None else 'was skipped: ' + skipped}")


def test_texts() -> None:
    with tempfile.TemporaryDirectory() as folder:
        target, drafter = f"{folder}/target", f"{folder}/drafter"
        make = [BIN / "make_checkpoint"]
        shape = ["family=llama3", "vocab=96", "layers=1", "dtype=f32"]
        for model, flags in ((target, []), (drafter, ["noise=0.2"])):
            subprocess.run([*make, model, *shape, *flags], check=True)
            config = Path(model) / "config.json"
            # transformers uses this field, Outrider the architecture.
            config.write_text(json.dumps({**json.loads(config.read_text(encoding="utf-8")),
                                          "model_type": "llama"}),
                              encoding="utf-8")
        report, out = compare("--target", target, "--drafter", drafter, "--draft", "3",
                              "--acceptance", "own", "--sessions", "1", "--expect-same-text")
        speculative = report["cases"][1]["Outrider"]["accepted_per_round"]
        assert 0 < speculative < 3, speculative
        halves = 1 if report["halves"]["transformers"]["skipped"] else 2
        assert f"the same text {2 * halves} times" in out, out
        if halves == 2:
            assert report["cases"][1]["transformers"]["accepted_per_round"] == speculative, report
    print("texts: the same")


test_counts()
test_texts()
