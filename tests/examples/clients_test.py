#!/usr/bin/env python3
"""The gRPC clients of examples/, in Python and in C++, against a running pair.

  clients_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from example import run, run_program
from processes import SKIPPED, Processes, small_pair
from serving import ServedPair

try:
    import grpc  # noqa: F401
except ImportError:
    print("skipped: python3-grpcio is not installed")
    sys.exit(SKIPPED)

PROMPT = "One day"


def command_line_text(binaries, address):
    done = subprocess.run([binaries / "outrider", "generate", "--verifier", address, "--prompt",
                           PROMPT, "--max-tokens", "64", "--temperature", "0", "--json"],
                          capture_output=True, check=True)
    return json.loads(done.stdout)["text"]


def run_readme(source, address):
    """The program in the package's page."""
    page = (source / "client/python/README.md").read_text()
    lines = page[page.index("    from outrider import"):].split("\n\nAsyncClient")[0].splitlines()
    program = "\n".join(line[4:] for line in lines if line == "" or line.startswith("    "))
    assert program.count("127.0.0.1:7300") == 1, program
    said, _ = run_program(sys.executable, "-B", "-c", program.replace("127.0.0.1:7300", address))
    assert "32 requests in" in said and ", 0 failed" in said, said


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        address = ServedPair(processes, binaries, small_pair(binaries)).grpc
        expected = command_line_text(binaries, address)
        for text, note in [
            run(source, "generate.py", "--verifier", address, "--prompt", PROMPT, "--temperature",
                "0"),
            run_program(binaries / "example_generate", address, PROMPT),
        ]:
            assert text.rstrip("\n") == expected.rstrip("\n"), (text, expected)
            assert "tokens in " in note.replace(" (length)", "").replace(" (stop)", ""), note
        text, _ = run(source, "many_at_once.py", "--verifier", address)
        assert text.strip(), text
        pet, answer = run(source, "structured_output.py", "--verifier", address)[0].splitlines()
        assert json.loads(pet)["kind"] in ("cat", "dog", "owl") and answer in (
            "yes", "no"), (pet, answer)
        run_readme(source, address)
        refused = subprocess.run([sys.executable, "-B", source / "examples/generate.py",
                                  "--verifier", address, "--temperature", "-1"],
                                 capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and "INVALID_ARGUMENT" in refused.stderr, refused
    print("generate.py, generate.cc, many_at_once.py, structured_output.py and the package's page")


if __name__ == "__main__":
    main()
