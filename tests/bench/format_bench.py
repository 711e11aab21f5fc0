#!/usr/bin/env python3
"""Speed of a forward pass with weights in each format, over that in bf16, on the CPU.

  tests/bench/format_bench.py [--build build/cpu] [--cores 0] [--repetitions 21] > formats.csv

Random models of a Llama shape, larger than caches; groups of quantized checkpoints have 32 inputs.
The formats take turns within a repetition, and a ratio is the median over the repetitions, with its
quartiles: on a busy machine only such a ratio is meaningful.
"""
import argparse
import csv
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_support import progress
from turn_process import TurnProcess

SHAPE = ("vocab=8192", "hidden=1024", "intermediate=2816", "layers=8", "heads=16", "kv_heads=4",
         "head_dim=64", "tied=1")
# How the checkpoint is stored, and the flags of the service.
FORMATS = {
    "bf16": ("", ()),
    "bf16, --bf16-activations": ("", ("--bf16-activations",)),
    "--weights int8": ("", ("--weights", "int8")),
    "--weights int4": ("", ("--weights", "int4")),
    "--weights int4 --int8-activations": ("", ("--weights", "int4", "--int8-activations")),
    "int-quantized, W8A16": ("int8", ()),
    "float-quantized, fp8": ("fp8", ()),
    "fp8 in blocks": ("fp8-block", ()),
    "pack-quantized, 4 bits": ("packed4", ()),
    "pack-quantized, 8 bits": ("packed8", ()),
    "gptq": ("gptq", ()),
    "gptq with act-order": ("gptq-order", ()),
    "awq": ("awq", ()),
    "awq, --int8-activations": ("awq", ("--int8-activations",)),
}
ROWS = (1, 4, 8)


def models(args, work):
    for stored in {stored for stored, _ in FORMATS.values()}:
        progress(f"writing a model, stored as {stored or 'bf16'}")
        how = [f"stored={stored}"] if stored else []
        program, folder = args.build / "bin/make_checkpoint", work / (stored or "bf16")
        subprocess.run([program, folder, *SHAPE, *how], check=True, stdout=subprocess.DEVNULL)


def start(args, work, name):
    stored, flags = FORMATS[name]
    process = TurnProcess(name, ["taskset", "-c", args.cores, args.build / "bin/pass_bench",
                                 "--model", work / (stored or "bf16"), "--kv-tokens", "4096",
                                 *flags])
    process.start()
    return process


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build/cpu"))
    parser.add_argument("--cores", default="0")
    parser.add_argument("--repetitions", type=int, default=21)
    parser.add_argument("--passes", type=int, default=3, help="of a turn")
    args = parser.parse_args()
    seconds = {(name, rows): [] for name in FORMATS for rows in ROWS}
    with tempfile.TemporaryDirectory() as folder:
        models(args, Path(folder))
        processes = [start(args, Path(folder), name) for name in FORMATS]
        for repetition in range(args.repetitions):
            progress(f"repetition {repetition + 1} of {args.repetitions}")
            for rows in ROWS:
                for process in processes:
                    reply = process.turn(f"1 {rows} 64 {args.passes}")
                    seconds[process.name, rows].append(reply["seconds"])
        for process in processes:
            process.stop()
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["format", "rows", "ms", "speed_over_bf16", "first_quartile", "third_quartile",
                  "time_over_one_row"])
    for (name, rows), times in seconds.items():
        ratios = [a / b for a, b in zip(seconds["bf16", rows], times)]
        quarters = statistics.quantiles(ratios, n=4)
        over_one = statistics.median(b / a for a, b in zip(seconds[name, 1], times))
        out.writerow([name, rows, f"{1000 * statistics.median(times):.2f}",
                      *(f"{ratio:.2f}" for ratio in (quarters[1], quarters[0], quarters[2])),
                      f"{over_one:.2f}"])


if __name__ == "__main__":
    main()
