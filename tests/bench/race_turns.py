"""The loop of the scripts that time passes in another engine's Python; see turn_process.py."""
import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path


def flags(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", type=Path)
    parser.add_argument("--precision", choices=("f32", "bf16", "int8"), required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, required=True, help="what is exported is kept there")
    return parser.parse_args()


def skip(why: str) -> None:
    print(json.dumps({"skipped": " ".join(why.split())[:200]}), flush=True)
    sys.exit(0)


def serve(version: str, prepare: Callable[[int, int, int], Callable[[], None]],
          restore: Callable[[], None]) -> None:
    """`prepare(sequences, rows, context)` returns a function that runs a pass; `restore` drops its
    tokens again, untimed."""
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        sequences, rows, context, passes = map(int, line.split())
        run = prepare(sequences, rows, context)
        seconds = []
        for _ in range(passes + 1):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
            restore()
        print(json.dumps({"seconds": statistics.fmean(seconds[1:])}), flush=True)
