"""The services with paced models, which tests/bench/fleet_bench.py compares with the simulator,
draft as they should."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from processes import TIME_LIMIT, Processes

SOURCE, BINARIES = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
MODEL = SOURCE / "models/default/target"


def paced(pace, program, *flags):
    return ["env", f"OUTRIDER_PACED={pace}", BINARIES / program, "--model", MODEL, *flags]


class PacedServices(unittest.TestCase):
    def test_accept_the_given_share(self):
        with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
            verifier = processes.start("verifier",
                                       paced("2,0.01", "paced_verifier", "--listen", "127.0.0.1:0",
                                             "--metrics", "", "--policy", "fixed", "--draft-length",
                                             4, "--min-draft-wait", 30), await_line="serving")
            address = "127.0.0.1:" + verifier.line.split(" port=")[1].split()[0]
            drafter = paced("0.5,0.01,0.7", "paced_drafter", "--verifier", address, "--listen", "",
                            "--metrics", "")
            processes.start("drafter", drafter, await_line="attached")
            said = subprocess.run([BINARIES / "outrider", "bench", "--verifier", address,
                                   "--prompts", SOURCE / "tests/bench/prompts.jsonl", "--requests",
                                   "8", "--concurrency", "2", "--max-tokens", "200",
                                   "--temperature", "0", "--ignore-eos", "--json"],
                                  capture_output=True, text=True, check=True)
        report = json.loads(said.stdout)
        self.assertEqual(report["requests_ok"], 8)
        self.assertEqual(report["completion_tokens"], 1600)
        # 0.7 + 0.7^2 + .. of four draft tokens; some 550 rounds of deviation 1.6: five of the
        # mean's.
        self.assertAlmostEqual(report["accepted_per_round"], 1.773, delta=0.35)

    def test_refuse_a_wrong_pace(self):
        for pace in ("", "2", "2,x", "1,2,3,4"):
            run = subprocess.run(
                [str(a) for a in paced(pace, "paced_drafter", "--verifier", "127.0.0.1:1")],
                                 capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn("OUTRIDER_PACED must be MS,MS_PER_ROW[,ACCEPTANCE]", run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
