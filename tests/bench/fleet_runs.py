#!/usr/bin/env python3
"""Fleet simulations behind docs/fleet.md: `outrider simulate fleet` on scenarios that differ in
one number.

  pool    clients of each verifier: when drafters as services beat those in verifiers' processes
  zones   the round trip between verifiers and drafters
  update  tokens per second during rolling updates
  autoscaler  drafters that are bought by the plans that each should have at hand
  rates   runs by rates beside runs of every round, for fleets small enough for both
  large   1,000 verifiers and 5,000 drafters by rates: ten minutes of 10,000 requests a second

Prints a CSV table, for docs/data.
"""
import argparse
import copy
import csv
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_support import ROOT, command_line, progress

# Pass times of two drafters, in milliseconds, beside a verifier of 25 + 0.05 for each further row.
DRAFTERS = {"2 ms": (2, 0.02), "6 ms": (6, 0.2)}


def base(drafter: str, verifiers: int, drafters: int) -> dict:
    first, row = DRAFTERS[drafter]
    return {"seconds": 60, "zones": [{"verifiers": verifiers, "drafters": drafters}],
            "network": {"within_ms": 0.25},
            "verifier": {"t_ms": 25, "t_row_ms": 0.05, "sessions": 128, "price": 10},
            "drafter": {"t_ms": first, "t_row_ms": row, "price": 1.2},
            "classes": [{"acceptance": 0.8, "prompt_tokens": {"lognormal": [200, 0.8]},
                         "output_tokens": {"lognormal": [200, 0.6]}}]}


def outrider_simulate(args, scenario: dict, layout: str, *flags) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.json"
        path.write_text(json.dumps(scenario), encoding="utf-8")
        return subprocess.run([args.build / "bin" / "outrider-simulate", "fleet", "--scenario",
                               path, "--layout", layout, "--json", *flags],
                              stdout=subprocess.PIPE, text=True, check=True).stdout


def simulate(args, scenario: dict, layout: str, *flags) -> list:
    return json.loads(outrider_simulate(args, scenario, layout, *flags))["layouts"]


def row_of(figures: dict) -> list:
    return [f"{figures['tokens_per_second']:.1f}", f"{figures['first_token_ms']['p50']:.1f}",
            f"{figures['first_token_ms']['p99']:.1f}", f"{figures['between_tokens_ms']['p50']:.2f}",
            f"{figures['between_tokens_ms']['p99']:.2f}", f"{figures['drafter_busy']:.3f}",
            f"{figures['price_per_million_tokens']:.3f}"]


FIGURES = ["tokens_per_s", "first_token_p50_ms", "first_token_p99_ms", "between_tokens_p50_ms",
           "between_tokens_p99_ms", "drafter_busy", "price_per_million"]


def run_pool(args, out) -> None:
    out.writerow(["drafter", "clients_per_verifier", "layout", *FIGURES])
    for drafter in DRAFTERS:
        for clients in (1, 2, 4, 8, 16, 32, 64, 128):
            scenario = base(drafter, 4, 4)
            scenario["arrivals"] = {"clients": 4 * clients}
            for figures in simulate(args, scenario, "all"):
                out.writerow([drafter, clients, figures["layout"], *row_of(figures)])


def run_zones(args, out) -> None:
    out.writerow(["clients_per_verifier", "round_trip_ms", "lookahead", *FIGURES])
    for clients in (1, 16, 64):
        for round_trip in (0.5, 2, 5, 10, 20, 40, 80, 160):
            for lookahead in ("on", "off"):
                scenario = base("2 ms", 4, 0)
                scenario["zones"].append({"drafters": 4})
                scenario["network"] = {"within_ms": 0, "between_ms": round_trip / 2}
                scenario["drafter"]["ahead_tokens"] = 32 if lookahead == "on" else 0
                scenario["arrivals"] = {"clients": 4 * clients}
                for figures in simulate(args, scenario, "split"):
                    out.writerow([clients, round_trip, lookahead, *row_of(figures)])
        scenario["arrivals"] = {"clients": 4 * clients}
        for figures in simulate(args, scenario, "plain"):
            out.writerow([clients, 0, "plain", *row_of(figures)])


def run_update(args, out) -> None:
    """Four verifiers and four drafters at some two thirds of what they can do."""
    fleet = base("2 ms", 4, 4)
    fleet |= {"seconds": 420, "warm_up_s": 30, "interval_s": 10, "arrivals": {"rate_per_s": 30}}
    verifiers = {"kind": "update_verifiers", "at_s": 60, "restart_s": 45, "drain_s": 30}
    updates = {"none": [], "verifiers": [verifiers],
               "verifiers with surge": [verifiers | {"surge": True}],
               "drafters": [{"kind": "update_drafters", "at_s": 60, "restart_s": 20}],
               "all drafters at once": [{"kind": "update_drafters", "at_s": 60, "restart_s": 20,
                                         "count": 4}]}
    out.writerow(["update", "begin_s", "tokens_per_s", "first_token_ms", "between_tokens_ms",
                  "rejected", "failed", "verifiers", "drafters"])
    for title, events in updates.items():
        scenario = copy.deepcopy(fleet) | {"events": events}
        figures = simulate(args, scenario, "split")[0]
        progress(f"{title}: {row_of(figures)}, {figures['rejected']} rejected, {figures['failed']} "
                 f"failed, {figures['verifier_hours']:.3f} and "
                 f"{figures['drafter_hours']:.3f} hours")
        for part in figures["timeline"]:
            out.writerow([title, f"{part['begin_s']:.0f}", f"{part['tokens_per_second']:.0f}",
                          *("" if part[name] is None else f"{part[name]:.2f}"
                            for name in ("first_token_ms", "between_tokens_ms")),
                          part["rejected"], part["failed"], part["verifiers"], part["drafters"]])


def run_autoscaler(args, out) -> None:
    out.writerow(["plans", "drafters", "tokens_per_s", "between_tokens_ms", "price_per_million"])
    for plans in (3, 6, 12):
        scenario = base("2 ms", 2, 1) | {
            "seconds": 420, "warm_up_s": 120, "interval_s": 30, "arrivals": {"rate_per_s": 14},
            "autoscaler": {"every_s": 15, "lag_s": 30,
                           "drafters": {"least": 1, "most": 16, "plans": plans}}}
        figures = simulate(args, scenario, "split")[0]
        out.writerow([plans, f"{2 * figures['drafter_hours'] / figures['verifier_hours']:.2f}",
                      f"{figures['tokens_per_second']:.1f}",
                      f"{figures['between_tokens_ms']['mean']:.2f}",
                      f"{figures['price_per_million_tokens']:.3f}"])


def run_rates(args, out) -> None:
    """Fleets of several sizes and loads in both resolutions."""
    out.writerow(["verifiers", "drafters", "load", "resolution", "layout", "tokens_per_s",
                  "first_token_ms", "between_tokens_ms", "verifier_busy", "drafter_busy"])

    def fleet(verifiers: int, drafters: int, load: dict) -> dict:
        scenario = base("2 ms", verifiers, drafters) | {"arrivals": load}
        scenario["verifier"]["sessions"] = 64
        return scenario

    with tempfile.TemporaryDirectory() as folder:
        for kind in ("clients", "rate_per_s"):
            outrider_simulate(args, fleet(4, 20, {kind: 1}), args.layout,
                              "--fit", Path(folder) / kind)
        for verifiers, drafters in ((4, 12), (8, 40), (20, 100)):
            for kind, each in (("clients", 20), ("rate_per_s", 3), ("rate_per_s", 7)):
                load = {kind: each * verifiers}
                # Other seeds than the fit's.
                seed = ("--seed", "2")
                resolutions = (("rounds", seed),
                               ("rates", (*seed, "--rates", Path(folder) / kind)))
                for resolution, flags in resolutions:
                    scenario = fleet(verifiers, drafters, load)
                    for figures in simulate(args, scenario, args.layout, *flags):
                        out.writerow([verifiers, drafters, f"{load[kind]} {kind}", resolution,
                                      figures["layout"], f"{figures['tokens_per_second']:.1f}",
                                      f"{figures['first_token_ms']['mean']:.2f}",
                                      f"{figures['between_tokens_ms']['mean']:.3f}",
                                      f"{figures['verifier_busy']:.3f}",
                                      f"{figures['drafter_busy']:.3f}"])
                        sys.stdout.flush()


def large_fleet() -> dict:
    scenario = base("2 ms", 0, 0) | {
        "seconds": 600, "warm_up_s": 60, "routing": "prefix", "arrivals": {"rate_per_s": 10000},
        "zones": [{"verifiers": 334, "drafters": 1667}, {"verifiers": 333, "drafters": 1667},
                  {"verifiers": 333, "drafters": 1666}],
        "network": {"within_ms": 0.25, "between_ms": 0.75}}
    scenario["verifier"]["sessions"] = 64
    scenario["drafter"]["subset"] = 8
    scenario["classes"][0] |= {"output_tokens": {"lognormal": [160, 0.6]}, "prefixes": 20000,
                               "prefix_tokens": 64}
    return scenario


def run_large(args, out) -> None:
    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    scenario = large_fleet()
    with tempfile.TemporaryDirectory() as folder:
        rates = Path(folder) / "rates.json"
        outrider_simulate(args, scenario, "split", "--fit", rates)
        fit_seconds = spent()
        progress(f"the fit took {fit_seconds:.0f} s of a core")
        figures = simulate(args, scenario, "split", "--rates", rates)[0]
    out.writerow(["tokens_per_s", "first_token_ms", "between_tokens_ms", "verifier_busy",
                  "drafter_busy", "rejected", "failed", "price_per_million", "fit_cpu_s",
                  "run_cpu_s", "peak_mb"])
    # The run is the larger of the two processes.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    out.writerow([f"{figures['tokens_per_second']:.0f}", f"{figures['first_token_ms']['mean']:.1f}",
                  f"{figures['between_tokens_ms']['mean']:.2f}", f"{figures['verifier_busy']:.3f}",
                  f"{figures['drafter_busy']:.3f}", figures["rejected"], figures["failed"],
                  f"{figures['price_per_million_tokens']:.3f}", f"{fit_seconds:.0f}",
                  f"{spent() - fit_seconds:.0f}", f"{peak:.0f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=("pool", "zones", "update", "autoscaler", "rates", "large"))
    parser.add_argument("--layout", default="all", help="of the rates run")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cpu")
    args = parser.parse_args()
    print(f"# command: {command_line()}")
    runs = {"pool": run_pool, "zones": run_zones, "update": run_update,
            "autoscaler": run_autoscaler, "rates": run_rates, "large": run_large}
    runs[args.run](args, csv.writer(sys.stdout, lineterminator="\n"))


if __name__ == "__main__":
    main()
