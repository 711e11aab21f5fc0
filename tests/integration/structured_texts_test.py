"""Structured output of a verifier with a drafter, judged by independent readers
(structured_texts.py): one text per source, greedy and with every verification rule, with and
without drafts. structured_bench.py generates more of them.

    structured_texts_test.py SOURCE_DIR BINARY_DIR
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from processes import SKIPPED, TIME_LIMIT, Processes, small_pair
from structured_texts import SEED_STABLE, WAYS, Tally, differing, run_texts, sources

try:
    import jsonschema  # noqa: F401
except ImportError:
    print("skipped: python3-jsonschema is not installed (scripts/setup.sh --tests)")
    sys.exit(SKIPPED)

CONCURRENCY = 8
# The least share of texts that must end within max_tokens. Keys of open objects are unbounded, so a
# few never do.
SHARE_THAT_ENDS = 0.8


def await_drafter(binaries, port):
    until = time.monotonic() + TIME_LIMIT
    while True:
        asked = subprocess.run([binaries / "outrider", "status", "--verifier", f"127.0.0.1:{port}",
                                "--json"],
                               capture_output=True, check=True)
        if json.loads(asked.stdout).get("drafters"):
            return
        assert time.monotonic() < until, "no drafter came"
        time.sleep(0.05)


def check(http_port):
    asked = list(enumerate(sources()))
    judged = ended = 0
    for way in WAYS:
        plain, drafted = Tally(), Tally()
        run_texts(plain, http_port, way, False, asked, CONCURRENCY)
        run_texts(drafted, http_port, way, True, asked, CONCURRENCY)
        for name, tally in (("without drafts", plain), ("with drafts", drafted)):
            assert not tally.wrong, (f"{way}, {name}: {len(tally.wrong)} texts are not valid: "
                                     f"{tally.wrong[0]}")
            judged += tally.texts
            ended += tally.texts - tally.cut
        counts = f"{way}: {drafted.accepted}, {drafted.forced}"
        assert drafted.accepted > 0 and drafted.forced > 0, counts
        if way in SEED_STABLE:
            for number in differing(plain, drafted):
                sys.exit(f"{way}: {asked[number][1].fields}: {plain.contents[number]!r} without "
                         f"drafts, {drafted.contents[number]!r} with them")
    assert ended >= SHARE_THAT_ENDS * judged, f"only {ended} of {judged} texts ended"
    print(f"{len(asked)} sources, {judged} texts: all {ended} that ended are valid")


def main():
    binaries = pathlib.Path(sys.argv[2])
    models = small_pair(binaries)
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        line = processes.start("verifier", [
            binaries / "outrider-verifier", "--model", models / "target", "--listen", "127.0.0.1:0",
            "--metrics", "", "--http", "127.0.0.1:0", "--policy", "fixed", "--min-draft-wait",
            "30"], await_line="http_port=").line
        port = re.search(r" port=(\d+)", line).group(1)
        processes.start("drafter", [binaries / "outrider-drafter", "--model", models / "drafter",
                                    "--verifier", f"127.0.0.1:{port}", "--listen", "", "--metrics",
                                    ""])
        await_drafter(binaries, port)
        check(int(re.search(r"http_port=(\d+)", line).group(1)))


if __name__ == "__main__":
    main()
