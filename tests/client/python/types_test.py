#!/usr/bin/env python3
"""mypy finds nothing in the package, and finds the mistakes of a program that uses it.

  types_test.py SOURCE_DIR BINARY_DIR
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from packages import need_packages, version

need_packages("mypy", "grpc")

PROGRAM = """import outrider


async def use(client: outrider.Client, twin: outrider.AsyncClient) -> None:
    text: str = client.generate("x").text
    length: int = client.generate("x").text  # wrong
    for chunk in client.stream([1, 2], outrider.GenerationParams(temperature="hot")):  # wrong
        text += chunk.text
    async for part in twin.stream("x"):
        text += part.token_ids  # wrong
    (await twin.bench(["x"], concurrency=2)).ttft_ms.p50.real
    client.status().drafters[0].nmae  # wrong
"""


def mypy(*argv, package):
    environment = {**os.environ, "MYPYPATH": str(package)}
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull, *argv],
                          env=environment, text=True, capture_output=True, check=False)
    return done.stdout + done.stderr


def main():
    source, package = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).parent / "python"
    said = mypy("--config-file", source / "client/python/pyproject.toml", package=package)
    assert said.startswith("Success"), said
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.py"
        program.write_text(PROGRAM)
        said = mypy("--strict", program, package=package)
    expected = [i for i, line in enumerate(PROGRAM.splitlines(), start=1)
                if line.endswith("# wrong")]
    found = sorted({int(line) for line in re.findall(r"program\.py:(\d+): error", said)})
    assert found == expected, (expected, said)
    print(f"{version('mypy')}: nothing in the package, {len(expected)} mistakes in a program that "
          "uses it")


if __name__ == "__main__":
    main()
