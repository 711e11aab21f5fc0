#!/usr/bin/env python3
"""Outrider compared with llama.cpp, OpenVINO and transformers on the CPU, as far as they are
installed: the same tensors in each, threads pinned alike, turns interleaved. Trust the ratios of
paired turns, not the absolute figures.

Forward passes of a model with random weights (--shape), by precision: decode by batch size,
prefill, rows of verification. Texts of a real pair (--target, --drafter), plain and speculative.
Prints Markdown. With --against, prints our ratios that have fallen by more than their spread; the
exit code is then 1.

  tests/bench/cpu_race.py --llama-cpp /path/to/llama.cpp/build --gguf-python /path/to/python \\
      --openvino-python /path/to/python --transformers-python /path/to/python --json race.json
"""
import argparse
import dataclasses
import json
import platform
import sys
import tempfile
from pathlib import Path

from bench_support import DEFAULT_MODELS, ROOT, command_line, deepen, progress
from race_cases import TEXT_CASES, Case, pass_cases
from race_passes import PRECISIONS, Missing, Setting, make_model, makers_of
from race_ratios import OURS, Ratio, Runs, markdown, our_ratios, regressions
from race_texts import TEXT_MAKERS, same_start

SHAPE_110M = ("hidden=768,intermediate=2048,layers=12,heads=12,kv_heads=12,head_dim=64,"
              "vocab=32000,tied=1")


class Race:
    def __init__(self, args):
        self.args = args
        self.runs: Runs = {}
        self.versions: dict[str, str] = {}
        self.skipped: list[str] = []

    def start(self, makers: dict, *arguments) -> list:
        """The engines that can run here, which must include ours."""
        engines = []
        for name, maker in makers.items():
            try:
                engines.append(maker(name, *arguments))
            except Missing as why:
                if name == OURS:
                    sys.exit(f"{name}: {why}")
                skipped = f"{name} is skipped: {why}"
                if skipped not in self.skipped:
                    self.skipped.append(skipped)
                    progress(skipped)
            else:
                self.versions.setdefault(name, engines[-1].version)
        return engines

    def measure(self, group: str, engines: list, cases: list[Case]) -> None:
        """Engines alternate within each case, in a changing order."""
        group_runs = self.runs.setdefault(group, {str(case): {} for case in cases})
        for repetition in range(self.args.repetitions):
            progress(f"{group}: {repetition + 1} of {self.args.repetitions}")
            for case in cases:
                for engine in engines[::1 if repetition % 2 == 0 else -1]:
                    group_runs[str(case)].setdefault(engine.name, []).append(engine.seconds(case))

    def passes(self) -> None:
        model = self.args.model or make_model(self.args)
        cases = pass_cases(self.args.batches, self.args.rows, self.args.prefill)
        for precision in self.args.precisions:
            engines = self.start(makers_of(precision), Setting(self.args, precision, model))
            try:
                self.measure(precision, engines, cases)
            finally:
                for engine in engines:
                    engine.stop()

    def pair(self) -> None:
        target = deepen(self.args, self.args.target, self.args.layers, self.args.work)
        engines = self.start(TEXT_MAKERS, self.args, target, self.args.drafter)
        try:
            self.measure("texts", engines, TEXT_CASES)
            ours = next((engine.texts for engine in engines if engine.name == OURS), {})
            for engine in engines:
                if engine.name != OURS and ours:
                    same = sum(same_start(ours[prompt], engine.texts[prompt])
                               for prompt in ours) / len(ours)
                    print(f"texts: {engine.name} and {OURS} agree on the first {100 * same:.0f} % "
                          "of a plain text")
        finally:
            for engine in engines:
                engine.stop()

    def report(self) -> dict:
        settings = {name: str(value) for name, value in vars(self.args).items()
                    if isinstance(value, (int, float, str, list)) and name != "prompts"}
        return {"command": command_line(), "processor": processor(), "versions": self.versions,
                "skipped": self.skipped, "settings": settings, "seconds": self.runs,
                "ratios": {name: dataclasses.asdict(ratio)
                           for name, ratio in our_ratios(self.runs).items()}}


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
                platform.machine())


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def read_prompts(path: Path, count: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cpu",
                        help="of Outrider, with OUTRIDER_BENCH")
    peers = parser.add_argument_group("other engines")
    peers.add_argument("--llama-cpp", type=Path, 
                       help="a build folder with bin/llama-batched-bench and bin/llama-server")
    peers.add_argument("--gguf-python", type=Path,
                       help="a Python with numpy and gguf, which writes llama.cpp's files")
    peers.add_argument("--openvino-python", type=Path,
                       help="a Python with openvino and optimum-intel")
    peers.add_argument("--transformers-python", type=Path,
                       help="a Python with torch and transformers")
    passes = parser.add_argument_group("passes")
    passes.add_argument("--model", type=Path, help="a Llama checkpoint in place of random weights")
    passes.add_argument("--shape", default=SHAPE_110M,
                        help="of the random weights, in make_checkpoint's words (%(default)s)")
    passes.add_argument("--precisions", type=lambda text: text.split(","), default=list(PRECISIONS))
    passes.add_argument("--batches", type=numbers, default=[1, 2, 4, 8, 16, 32],
                        help="sequences that decode")
    passes.add_argument("--rows", type=numbers, default=[1, 2, 4, 8], help="of verification")
    passes.add_argument("--prefill", type=int, default=512, help="tokens, at most 512")
    passes.add_argument("--passes", type=int, default=6, help="of a turn")
    passes.add_argument("--threads", type=int, default=1)
    passes.add_argument("--cores", default="0", help="that each engine is pinned to")
    texts = parser.add_argument_group("texts")
    texts.add_argument("--target", type=Path, default=DEFAULT_MODELS / "target")
    texts.add_argument("--drafter", type=Path, default=DEFAULT_MODELS / "drafter")
    texts.add_argument("--layers", type=int, default=64,
                       help="added to the target, which change nothing but its speed")
    texts.add_argument("--texts", type=int, default=6, help="prompts; 0: no texts")
    texts.add_argument("--tokens", type=int, default=64, help="of each text")
    texts.add_argument("--draft", type=int, default=4,
                       help="draft tokens a round of other engines; ours chooses")
    texts.add_argument("--text-precision", choices=PRECISIONS, default="bf16",
                       help="in f32 all engines give the same text, if their tensors are the same")
    texts.add_argument("--pair-cores", default="0,1")
    texts.add_argument("--prompt-file", type=Path,
                       default=ROOT / "tests" / "bench" / "prompts.jsonl")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--work", type=Path,
                        help="folder where exported models are kept for the next run")
    parser.add_argument("--log-dir", type=Path, default=Path("/tmp"))
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    parser.add_argument("--against", type=Path,
                        help="such a file of an earlier run on this machine")
    args = parser.parse_args()
    if args.repetitions < 1:
        parser.error("--repetitions is less than 1")
    if unknown := set(args.precisions) - {*PRECISIONS, ""}:
        parser.error(f"--precisions: {', '.join(unknown)}; known are {', '.join(PRECISIONS)}")
    args.prompts = read_prompts(args.prompt_file, args.texts)
    return args


def compare(report: dict, path: Path) -> int:
    """Prints what has become slower, and returns the exit code."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["processor"] != report["processor"]:
        print(f"{path} was measured on {stored['processor']}, this is {report['processor']}: "
              "ratios differ for that reason alone")
    now, before = ({name: Ratio(**ratio) for name, ratio in of["ratios"].items()}
                   for of in (report, stored))
    slower = regressions(now, before)
    print("\n".join(["slower than stored:",
                     *slower]) if slower else f"no ratio has fallen since {path}")
    return 1 if slower else 0


def main() -> int:
    args = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        args.work = args.work or Path(folder)
        args.work.mkdir(parents=True, exist_ok=True)
        race = Race(args)
        if args.precisions != [""]:
            race.passes()
        if args.texts > 0:
            race.pair()
    report = race.report()
    print("\n".join([report["processor"],
                     *(f"{name}: {version}" for name, version in race.versions.items() if version),
                     *race.skipped]))
    print(f"\n{markdown(race.runs)}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return compare(report, args.against) if args.against else 0


if __name__ == "__main__":
    sys.exit(main())
