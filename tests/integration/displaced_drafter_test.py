#!/usr/bin/env python3
"""A verifier with as many drafters as --max-drafters allows: one that has been suspended for a
minute gives its place to a newcomer, and serves another verifier instead.

Verifiers and drafters are the services with paced models (tests/support/paced_loader.h); a draft of
the slow drafter takes longer than any verifier waits for it.

  displaced_drafter_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from processes import TIME_LIMIT, Processes

SOURCE, BINARIES = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
MODEL = SOURCE / "models/default/target"


def paced(pace, program, *flags):
    return ["env", f"OUTRIDER_PACED={pace}", BINARIES / program, "--model", MODEL, *flags]


class Verifier:
    def __init__(self, processes, name):
        self.process = processes.start(
            name, paced("20,0.01", "paced_verifier", "--listen", "127.0.0.1:0", "--metrics",
                        "127.0.0.1:0", "--policy", "fixed", "--draft-length", 4,
                        "--max-drafters", 1), await_line="serving")
        self.address = "127.0.0.1:" + self.port("port")

    def port(self, key):
        return re.search(rf" {key}=(\d+)", self.process.line).group(1)

    def drafters(self):
        said = subprocess.run([BINARIES / "outrider", "status", "--verifier", self.address,
                               "--json"], capture_output=True, text=True, check=True)
        return [drafter["name"] for drafter in json.loads(said.stdout)["drafters"]]

    def metric(self, name, label=""):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port('metrics_port')}/metrics",
                                    timeout=TIME_LIMIT) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if re.match(rf"outrider_{name}\b", line) and label in line)

    def bench(self, requests):
        said = subprocess.run([BINARIES / "outrider", "bench", "--verifier", self.address,
                               "--prompts", SOURCE / "tests/bench/prompts.jsonl", "--requests",
                               str(requests), "--concurrency", "2", "--max-tokens", "40",
                               "--temperature", "0", "--ignore-eos", "--json"],
                              capture_output=True, text=True, check=True)
        return json.loads(said.stdout)


class DisplacedDrafter(unittest.TestCase):
    def await_(self, what, condition, meanwhile=lambda: time.sleep(0.2)):
        until = time.monotonic() + TIME_LIMIT
        while not condition():
            self.assertLess(time.monotonic(), until, f"not within {TIME_LIMIT} s: {what}")
            meanwhile()

    def test_suspended_drafter_gives_way(self):
        with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
            verifiers = [Verifier(processes, name) for name in ("one", "other")]
            addresses = pathlib.Path(folder) / "verifiers"
            addresses.write_text("".join(f"{v.address}\n" for v in verifiers))
            slow = paced("10000,0.01,0.7", "paced_drafter", "--verifier", f"file:{addresses}",
                         "--name", "slow", "--subset", 1, "--rebalance-seconds", 3600,
                         "--listen", "", "--metrics", "")
            processes.start("slow", slow, await_line="attached")
            full, other = sorted(verifiers, key=lambda v: v.drafters() != ["slow"])

            def serve():
                self.assertEqual(full.bench(4)["requests_ok"], 4)

            self.await_("it is suspended", lambda: full.metric("drafters_silent") == 1, serve)
            fast = paced("0.5,0.01,0.7", "paced_drafter", "--verifier", full.address, "--name",
                         "fast", "--listen", "", "--metrics", "")
            processes.start("fast", fast)
            self.await_("the newcomer has the place", lambda: full.drafters() == ["fast"], serve)
            self.assertEqual(full.metric("drafters_left_total", 'reason="displaced"'), 1)
            self.await_("the other verifier has the slow one", lambda: other.drafters() == ["slow"])
            self.await_("the newcomer drafts", lambda: full.bench(4)["accepted_per_round"] > 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
