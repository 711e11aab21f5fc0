"""The engines of cpu_race.py that time forward passes. A process that waits for its turn is stopped
by a signal, so that none of its threads takes a core from the engine that runs."""
import argparse
import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

from bench_support import progress
from race_cases import Case
from race_ratios import OURS
from turn_process import TurnProcess

BENCH = Path(__file__).resolve().parent
PRECISIONS = ("f32", "bf16", "int8")
GGUF_TYPES = {"f32": "F32", "bf16": "BF16", "int8": "Q8_0"}
EXACT = f"{OURS}, exact"  # activations stay f32, the default here; other engines round them


class Missing(Exception):
    """The reason why an engine cannot run."""


@dataclasses.dataclass
class Setting:
    args: argparse.Namespace
    precision: str
    model: Path  # a Hugging Face folder

    def pinned(self, *command) -> list[str]:
        return ["taskset", "-c", self.args.cores, *map(str, command)]


def existing(path: Path | None, flag: str, program: str = "") -> Path:
    if path is None:
        raise Missing(f"{flag} is not given")
    if not (path / program).exists():
        raise Missing(f"{path / program} does not exist")
    return path / program


class PassProcess(TurnProcess):
    """A process that answers "sequences rows context passes" with the mean time of a pass."""

    def __init__(self, name: str, setting: Setting, command: list):
        super().__init__(name, setting.pinned(*command))
        self.passes = setting.args.passes
        reply = self.start()
        if "skipped" in reply:
            self.stop()
            raise Missing(reply["skipped"])
        self.version = reply.get("version", "")
        self.process.send_signal(signal.SIGSTOP)

    def seconds(self, case: Case) -> float:
        self.process.send_signal(signal.SIGCONT)
        reply = self.turn(case.request(self.passes))
        self.process.send_signal(signal.SIGSTOP)
        return reply["seconds"]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        super().stop()


def outrider_passes(name: str, setting: Setting) -> PassProcess:
    program = existing(setting.args.build, "--build", "bin/pass_bench")
    rounded = ["--bf16-activations"] if setting.precision == "bf16" and name == OURS else []
    return PassProcess(name, setting,
                       [program, "--model", setting.model, "--weights", setting.precision,
                        "--threads", setting.args.threads, "--kv-tokens", 32768, *rounded])


def python_passes(name: str, setting: Setting) -> PassProcess:
    """One of the scripts in this folder, in the engine's own Python."""
    flag = f"--{name.lower()}-python"
    python = existing(getattr(setting.args, f"{name.lower()}_python"), flag)
    script = BENCH / f"race_{name.lower()}.py"
    return PassProcess(name, setting,
                       [python, "-B", script, setting.model, "--precision", setting.precision,
                        "--threads", setting.args.threads, "--work", setting.args.work])


def gguf_of(args, model: Path, precision: str) -> Path:
    """The same tensors for llama.cpp, written once."""
    path = args.work / f"{model.name}-{precision}.gguf"
    if not path.exists():
        progress(f"writing {path}")
        python = existing(args.gguf_python, "--gguf-python (llama.cpp needs it)")
        run = subprocess.run([python, "-B", BENCH / "race_gguf.py", model, path, "--type",
                              GGUF_TYPES[precision]],
                             capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise Missing(f"no GGUF file: {(run.stderr.strip() or run.stdout).splitlines()[-1]}")
    return path


class LlamaCppPasses:
    """llama-batched-bench, in a new process for each turn, since it loads fast.

    Rows of verification are sequences that share their whole context: one pass with the logits of
    every row, as llama-server verifies a draft."""

    def __init__(self, name: str, setting: Setting):
        self.name, self.setting = name, setting
        self.program = existing(setting.args.llama_cpp, "--llama-cpp", "bin/llama-batched-bench")
        self.model = gguf_of(setting.args, setting.model, setting.precision)
        self.version = llama_cpp_version(self.program)

    def seconds(self, case: Case) -> float:
        passes, threads = self.setting.args.passes, self.setting.args.threads
        # A prefill is timed twice and the first one discarded, like the warm-up passes of other
        # engines.
        prompt = f"{case.rows},{case.rows}" if case.kind == "prefill" else case.context
        streams = case.rows if case.kind == "verify" else case.sequences
        kv_tokens = 1024 + streams * (case.context + passes)
        flags = ["-npp", prompt, "-ntg", passes, "-npl", streams, "-pps", "-c", kv_tokens, "-b",
                 2048, "-ub", 512, "-t", threads, "-tb", threads, "-ngl", 0, "--output-format",
                 "jsonl"]
        if case.kind == "verify":
            flags.append("--kv-unified")
        command = self.setting.pinned(self.program, "-m", self.model, *flags)
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        reports = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        if not reports:
            sys.exit(f"llama-batched-bench ended with {run.returncode}: {run.stderr[-2000:]}")
        return reports[-1]["t_pp"] if case.kind == "prefill" else reports[-1]["t_tg"] / passes

    def stop(self) -> None:
        pass


def llama_cpp_version(program: Path) -> str:
    run = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in (run.stdout + run.stderr).splitlines() if line.startswith("version:")]
    return lines[0].removeprefix("version:").strip() if lines else "unknown version"


MAKERS = {OURS: outrider_passes, EXACT: outrider_passes, "llama.cpp": LlamaCppPasses,
          "OpenVINO": python_passes, "transformers": python_passes}


def makers_of(precision: str) -> dict:
    return {name: maker for name, maker in MAKERS.items() if name != EXACT or precision == "bf16"}


def make_model(args) -> Path:
    """A checkpoint of random weights in Llama's form, with --shape."""
    path = args.work / ("random-" + args.shape.replace(",", "-").replace("=", ""))
    if not path.exists():
        progress(f"writing {path}")
        program = args.build / "bin" / "make_checkpoint"
        subprocess.run([program, path, "family=llama", "positions=4096", *args.shape.split(",")],
                       check=True)
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        # Outrider uses the architecture, others the model type.
        (path / "config.json").write_text(json.dumps({**config, "model_type": "llama"}),
                                          encoding="utf-8")
    return path
