#!/usr/bin/env python3
"""AIPerf measures streamed chats of a running pair without errors or warnings, and its statistics
of speculative decoding agree with the usage in the answers.

  aiperf_test.py SOURCE_DIR BINARY_DIR
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from packages import need_packages, version
from processes import Processes, small_pair
from serving import DRAFTED, ServedPair

need_packages("aiperf")

REQUESTS, TOKENS = 6, 48

# Warnings from these modules do not concern the verifier: clock drift, and transformers' wish for
# PyTorch.
ABOUT_THE_MACHINE = r"\((?:clock_offset_tracker|logging|tokenization_utils_base)\.py:\d+\)"


def profile(folder, address, model):
    """AIPerf's output, including warnings, and the summary that it exports."""
    out = folder / "out"
    command = [
        sys.executable, "-m", "aiperf", "profile", "--model", "target", "--url",
        f"http://{address}", "--endpoint-type",
        "chat", "--streaming", "--tokenizer", model, "--request-count", REQUESTS, "--concurrency",
        "2", "--synthetic-input-tokens-mean", "60", "--synthetic-input-tokens-stddev", "0",
        "--output-tokens-mean", TOKENS, "--extra-inputs",
        json.dumps({"ignore_eos": True, **DRAFTED}),
        # A client cannot count special tokens and tokens that are parts of characters from the
        # text.
        "--use-server-token-count", "--no-gpu-telemetry", "--random-seed", "1", "--ui", "simple",
        "--artifact-dir", out]
    # Without the check for late event loops, which depends on the load of the machine.
    environment = {**os.environ, "HOME": str(folder), "HF_HOME": str(folder / "cache"),
                   "COLUMNS": "1000", "AIPERF_SERVICE_EVENT_LOOP_HEALTH_ENABLED": "false",
                   "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(list(map(str, command)), env=environment, cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout, json.loads((out / "profile_export_aiperf.json").read_text())


def check(said, summary):
    complaints = [line for line in re.findall(r".*(?:WARNING|ERROR|CRITICAL|Warning\b).*", said)
                  if not re.search(ABOUT_THE_MACHINE, line)]
    assert not complaints, "\n".join(complaints)
    assert summary["request_count"]["avg"] == REQUESTS, summary
    assert "error_request_count" not in summary, summary
    for metric in ("time_to_first_token", "inter_token_latency", "request_latency",
                   "output_token_throughput"):
        assert summary[metric]["avg"] > 0, (metric, summary)
    assert summary["output_sequence_length"]["avg"] == TOKENS, summary["output_sequence_length"]
    accepted = summary["total_usage_accepted_prediction_tokens"]["avg"]
    rejected = summary["total_usage_rejected_prediction_tokens"]["avg"]
    assert accepted > 0, "no draft token was accepted"
    rate = summary["spec_decode_overall_draft_acceptance_rate"]["avg"]
    assert abs(rate - 100 * accepted / (accepted + rejected)) < 0.01, (rate, accepted, rejected)
    lengths = summary["spec_decode_acceptance_length"]
    assert lengths["min"] >= 1, lengths


def main():
    binaries = pathlib.Path(sys.argv[2])
    models = small_pair(binaries)
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        address = ServedPair(processes, binaries, models).http
        check(*profile(pathlib.Path(folder), address, models / "target"))
    print(f"{version('aiperf')}: {REQUESTS} streamed chats, and what their drafts brought")


if __name__ == "__main__":
    main()
