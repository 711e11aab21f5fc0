#!/usr/bin/env python3
"""What `outrider simulate fleet` says against real processes: three verifiers and five drafters.

Their passes sleep for a given time (tests/support/paced_loader.h), so that all of them run on a few
cores as if each had its own. Every verifier gets the same number of clients, each with one request
at a time. Tokens per second and the times to the first token and between tokens are taken from the
verifiers' metrics in a window, and the same scenario is simulated. Prints a CSV table.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_support import Processes, add_common_flags, command_line, free_port, progress, scrape

VERIFIERS, DRAFTERS = 3, 5
# name, layout, policy, clients of each verifier
CASES = (("plain", "plain", "fixed", 4), ("drafts of 4 tokens", "split", "fixed", 1),
         ("drafts of 4 tokens", "split", "fixed", 4), ("drafts of 4 tokens", "split", "fixed", 12),
         ("controller", "split", "adaptive", 4))


def scenario(args, policy: str, clients: int, prompt_tokens: float) -> dict:
    return {"seconds": args.simulated, "zones": [{"verifiers": VERIFIERS, "drafters": DRAFTERS}],
            "network": {"within_ms": args.network_ms},
            "verifier": {"t_ms": args.verify_ms, "t_row_ms": args.verify_row_ms, "sessions": 64},
            "drafter": {"t_ms": args.draft_ms, "t_row_ms": args.draft_row_ms, "ahead_tokens": 0},
            "policy": policy, "draft_length": 4,
            "classes": [{"acceptance": args.acceptance, "prompt_tokens": round(prompt_tokens),
                         "output_tokens": args.max_tokens}],
            "arrivals": {"clients": clients * VERIFIERS}}


def simulate(args, layout: str, what: dict, folder: Path) -> dict:
    path = folder / "scenario.json"
    path.write_text(json.dumps(what), encoding="utf-8")
    said = subprocess.run([args.build / "bin" / "outrider-simulate", "fleet", "--scenario", path,
                           "--layout", layout, "--json"], capture_output=True, text=True,
                          check=True)
    return json.loads(said.stdout)["layouts"][0]


class Fleet:
    """The processes, with one policy."""

    def __init__(self, args, policy: str, with_drafters: bool):
        self.args = args
        self.processes = Processes(args)
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(VERIFIERS)]
        self.metrics = [f"127.0.0.1:{free_port()}" for _ in range(VERIFIERS)]
        os.environ["OUTRIDER_PACED"] = f"{args.verify_ms},{args.verify_row_ms}"
        # The texts are noise: what repeats in them tells nothing.
        flags = ["--policy", policy, "--kv-tokens", 65536, "--draft-length", 4, "--max-paths", 1,
                 "--lookup-tokens", 0, "--suffix-tokens", 0]
        for i, (address, metrics) in enumerate(zip(self.addresses, self.metrics)):
            self.processes.start(f"fleet-verifier{i}", "paced_verifier", "--model", args.target,
                                 "--listen", address, "--metrics", metrics, *flags)
        os.environ["OUTRIDER_PACED"] = f"{args.draft_ms},{args.draft_row_ms},{args.acceptance}"
        dialled = [flag for address in self.addresses for flag in ("--verifier", address)]
        for i in range(DRAFTERS if with_drafters else 0):
            self.processes.start(f"fleet-drafter{i}", "paced_drafter", "--model", args.target,
                                 "--listen", "", "--metrics", "", "--kv-tokens", 65536,
                                 "--ahead-tokens", 0, *dialled)
        self._await(DRAFTERS if with_drafters else 0)

    def _await(self, drafters: int) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if all(scrape(m).get("drafters_connected", -1) == drafters for m in self.metrics):
                    return
            except OSError:
                pass
            time.sleep(0.2)
        self.processes.stop()
        sys.exit(f"the services did not come up; see their logs in {self.args.log_dir}")

    def measure(self, clients: int) -> dict:
        args = self.args
        loads = []
        for address in self.addresses:
            command = [args.build / "bin" / "outrider", "bench", "--verifier", address, "--prompts",
                       args.prompts, "--ignore-eos", "--temperature", 0, "--max-tokens",
                       args.max_tokens, "--concurrency", clients, "--requests", 1000000]
            loads.append(subprocess.Popen([str(a) for a in command], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL))
        time.sleep(args.warm)
        before, start = self._total(), time.monotonic()
        time.sleep(args.seconds)
        after, end = self._total(), time.monotonic()
        for load in loads:
            load.kill()
            load.wait()
        while self._total()["num_requests_running"] > 0:
            time.sleep(0.1)
        gained = {name: value - before.get(name, 0) for name, value in after.items()}

        def mean_ms(name: str) -> float:
            return 1e3 * gained[f"{name}_sum"] / max(gained[f"{name}_count"], 1)

        return {"tokens_per_second": gained["generation_tokens_total"] / (end - start),
                "first_token_ms": mean_ms("time_to_first_token_seconds"),
                "between_tokens_ms": (end - start) * 1e3 * clients * VERIFIERS
                / gained["generation_tokens_total"],
                "prompt_tokens": gained["prompt_tokens_total"]
                / max(gained["time_to_first_token_seconds_count"], 1),
                "step_ms": mean_ms("engine_step_seconds")}

    def _total(self) -> dict:
        total: dict = {}
        for address in self.metrics:
            for name, value in scrape(address).items():
                total[name] = total.get(name, 0) + value
        return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_flags(parser)
    parser.add_argument("--verify-ms", type=float, default=60)
    parser.add_argument("--verify-row-ms", type=float, default=0.5)
    parser.add_argument("--draft-ms", type=float, default=8)
    parser.add_argument("--draft-row-ms", type=float, default=0.5)
    parser.add_argument("--acceptance", type=float, default=0.7)
    parser.add_argument("--network-ms", type=float, default=0.3,
                        help="one way, as the simulation takes it")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--warm", type=float, default=8)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--simulated", type=float, default=180)
    args = parser.parse_args()
    out = csv.writer(sys.stdout, lineterminator="\n")
    print(f"# command: {command_line()}")
    out.writerow(["layout", "clients", "measured_tokens_per_s", "simulated_tokens_per_s",
                  "simulated_over_measured", "measured_first_token_ms", "simulated_first_token_ms"])
    with tempfile.TemporaryDirectory() as folder:
        fleet, running = None, None
        for name, layout, policy, clients in CASES:
            if running != (policy, layout):
                if fleet is not None:
                    fleet.processes.stop()
                fleet, running = Fleet(args, policy, layout == "split"), (policy, layout)
            measured = fleet.measure(clients)
            progress(f"{name}, {clients} clients: {measured}")
            said = simulate(args, layout,
                            scenario(args, policy, clients, measured["prompt_tokens"]),
                            Path(folder))
            ratio = said["tokens_per_second"] / measured["tokens_per_second"]
            out.writerow([name, clients * VERIFIERS, f"{measured['tokens_per_second']:.1f}",
                          f"{said['tokens_per_second']:.1f}", f"{ratio:.3f}",
                          f"{measured['first_token_ms']:.1f}",
                          f"{said['first_token_ms']['mean']:.1f}"])
            sys.stdout.flush()
        fleet.processes.stop()


if __name__ == "__main__":
    main()
