#!/usr/bin/env python3
"""Measures the services under load, on two cores: the verifier's engine on core 0, the drafter on
core 1.

  throughput  tokens/s by concurrency without speculation, compared with the engine and the forward
              pass alone
  split       drafter in its own process against the same drafter inside the verifier's
  delay       added round trips between the two, with and without lookahead drafting
  capacity    sessions possible at an inter-token target: off, both on one core, split
  overload    ten times as many requests as can be served

"deep" is the target with additional layers that change nothing (deepen_checkpoint), as slow as a
model that does not fit into the cache; relative to its steps a round trip is as long as for a real
large model. Settings alternate within a repetition, the figures are medians over repetitions; trust
the ratios. Prints Markdown; --quick checks that it works.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from bench_support import (Service, add_common_flags, command_line, deepen, progress, table,
                           write_json)

PROMPT_TOKENS = 24  # approximately, for tests/bench/prompts.jsonl


def median(values) -> float:
    return statistics.median(list(values))


def ratio(over: list[dict], under: list[dict], key: str = "tokens_per_second") -> float:
    """Median of the ratios within each repetition."""
    return median(a[key] / b[key] for a, b in zip(over, under))


class Models:
    """The checkpoints by name; deep ones are made when first requested."""

    def __init__(self, args, folder: str):
        self.args = args
        self.folder = Path(folder)

    def target(self, name: str) -> Path:
        return deepen(self.args, self.args.target,
                      0 if name == "default" else self.args.deep_layers, self.folder)

    def drafter(self, name: str) -> Path:
        return deepen(self.args, self.args.drafter,
                      0 if name == "default" else self.args.deep_drafter_layers, self.folder)


def service_flags(args, sessions: int) -> list[str]:
    """A KV cache no larger than the run needs, since a deep model's is large."""
    return [*(["--bf16-activations"] * args.bf16_activations), "--kv-tokens",
            str(512 * max(sessions, 8))]


def load_flags(args, speculation: bool) -> list[str]:
    flags = ["--max-tokens", args.max_tokens, "--temperature", args.temperature]
    return flags + (["--draft-length", args.draft_length] if speculation
                    else ["--speculation", "off"])


def engine_alone(args, model: Path, sequences: int, tokens: int, core: int = 0) -> dict:
    """Rows per second of the forward pass and of the engine, one turn."""
    run = subprocess.run(
        ["taskset", "-c", str(core), args.build / "bin" / "engine_bench", "--model", model,
         "--sequences", str(sequences), "--context", str(PROMPT_TOKENS), "--tokens", str(tokens),
         "--temperature", str(args.temperature), "--repetitions", "1",
         *service_flags(args, sequences)],
        capture_output=True, text=True, check=True)
    return {k: v[0] for k, v in json.loads(run.stdout)[str(sequences)].items()}


def throughput(args, models: Models) -> dict:
    results = {}
    for name in args.targets:
        target = models.target(name)
        runs = {n: [] for n in args.concurrency}
        with Service(args, f"throughput-{name}", target,
                     service_flags=service_flags(args, max(args.concurrency))) as service:
            for repetition in range(args.repetitions):
                for n in args.concurrency:
                    run = engine_alone(args, target, n, args.alone_tokens)
                    run.update(service.load(load_flags(args, False), n, args.warm, args.seconds))
                    run["of_forward"] = run["rows_per_second"] / run["forward"]
                    run["of_forward_cpu"] = run["rows_per_cpu_second"] / run["forward_cpu"]
                    runs[n].append(run)
                    progress(f"{name} {repetition + 1}/{args.repetitions} concurrency {n}: "
                             f"{run['tokens_per_second']:.0f} tokens/s, {run['of_forward']:.2f} of "
                             f"forward, {run['of_forward_cpu']:.2f} by CPU time")
        rows = []
        for n, n_runs in runs.items():
            figures = [median(r[k] for r in n_runs)
                       for k in ("forward", "engine", "rows_per_second", "tokens_per_second")]
            rows.append([str(n), *(f"{f:.0f}" for f in figures),
                         f"{ratio(n_runs, runs[args.concurrency[0]]):.2f}",
                         f"{median(r['of_forward'] for r in n_runs):.2f}",
                         f"{median(r['of_forward_cpu'] for r in n_runs):.2f}",
                         f"{median(r['busy'] for r in n_runs):.2f}"])
        print(f"\nTarget: {name}\n")
        print(table(["concurrency", "forward pass alone, rows/s", "engine alone, rows/s",
                     "service, rows/s", "service, tokens/s", "of sequential",
                     "rows of forward alone", "the same by CPU time", "engine busy"], rows))
        results[name] = runs
    return results


def split(args, models: Models) -> dict:
    results = {}
    for name in args.targets:
        target, n = models.target(name), args.concurrency[0]
        flags = service_flags(args, n)
        runs = {"colocated": [], "split": []}
        with ExitStack() as stack:
            services = {kind: stack.enter_context(
                Service(args, f"split-{kind}", target, drafter=models.drafter("default"),
                        split=kind == "split", service_flags=flags)) for kind in runs}
            for repetition in range(args.repetitions):
                for kind in (list(runs) if repetition % 2 == 0 else list(runs)[::-1]):
                    runs[kind].append(
                        services[kind].load(load_flags(args, True), n, args.warm, args.seconds))
                    progress(f"{name} {repetition + 1}/{args.repetitions} {kind}: "
                             f"{runs[kind][-1]['tokens_per_second']:.0f} tokens/s")
        rows = [[name, kind, f"{median(r['tokens_per_second'] for r in kind_runs):.0f}",
                 f"{ratio(kind_runs, runs['colocated']):.3f}",
                 f"{median(r['busy'] for r in kind_runs):.2f}",
                 f"{median(r['step_ms'] for r in kind_runs):.2f}",
                 f"{median(r['drafted_share'] for r in kind_runs):.2f}",
                 f"{median(r['accepted_per_round'] for r in kind_runs):.2f}"]
                for kind, kind_runs in runs.items()]
        print(f"\nConcurrency {n}\n")
        print(table(["target", "drafter", "tokens/s", "of co-located", "engine busy", "ms per step",
                     "rounds with a draft", "accepted per draft"], rows))
        results[name] = runs
    return results


DELAY_SETTINGS = ("off", "on, not ahead", "on, ahead", "co-located")


def delay(args, models: Models) -> dict:
    results = {}
    for name in args.targets:
        target, drafter, rows = models.target(name), models.drafter("default"), []
        for rtt in args.rtt_ms:
            runs = {n: {s: [] for s in DELAY_SETTINGS} for n in args.concurrency}
            flags = service_flags(args, max(args.concurrency))
            with ExitStack() as stack:
                def start(kind, **more):
                    return stack.enter_context(
                        Service(args, f"delay-{kind}", target, drafter=drafter, service_flags=flags,
                                **more))
                plain = start("plain", rtt_ms=rtt)
                services = {"off": plain, "on, not ahead": plain,
                            "on, ahead": start("ahead", rtt_ms=rtt, ahead=True),
                            "co-located": start("inside", split=False)}
                for repetition in range(args.repetitions):
                    for n in args.concurrency:
                        for setting, service in services.items():
                            run = service.load(load_flags(args, setting != "off"), n, args.warm,
                                               args.seconds)
                            runs[n][setting].append(run)
                            progress(f"{name} rtt {rtt} {repetition + 1}/{args.repetitions} "
                                     f"concurrency {n} {setting}: {run['tokens_per_second']:.0f} "
                                     f"tokens/s, busy {run['busy']:.2f}")
            for n, n_runs in runs.items():
                for setting, set_runs in n_runs.items():
                    rows.append([f"{rtt:g}", str(n), setting,
                                 f"{median(r['tokens_per_second'] for r in set_runs):.0f}",
                                 f"{ratio(set_runs, n_runs['off']):.2f}",
                                 f"{ratio(set_runs, n_runs['co-located']):.2f}",
                                 f"{median(r['busy'] for r in set_runs):.2f}",
                                 f"{median(r['rows_per_step'] for r in set_runs):.1f}"])
            results[f"{name} {rtt:g} ms"] = runs
        print(f"\nTarget: {name}\n")
        print(table(["added round trip, ms", "concurrency", "speculation", "tokens/s", "of off",
                     "of co-located", "engine busy", "rows per step"], rows))
    return results


def sessions_at(target_ms: float, points: list[tuple[int, float]]) -> float:
    """Where the inter-token time crosses the target, linear between the measured points; 0: it is
    never below."""
    held = 0.0
    for (n0, ms0), (n1, ms1) in zip([(0, 0.0), *points], points):
        if ms1 <= target_ms:
            held = n1
        elif ms0 <= target_ms:
            held = n0 + (n1 - n0) * (target_ms - ms0) / (ms1 - ms0) if n0 > 0 else 0
            break
    return held


def capacity(args, models: Models) -> dict:
    results = {}
    for name in args.targets:
        target, drafter = models.target(name), models.drafter(name)
        flags = service_flags(args, max(args.concurrency))
        settings = ("off", "both on one core", "split")
        runs = {s: {n: [] for n in args.concurrency} for s in settings}
        with ExitStack() as stack:
            split_service = stack.enter_context(
                Service(args, "capacity-split", target, drafter=drafter, service_flags=flags))
            services = {"off": split_service, "split": split_service,
                        "both on one core": stack.enter_context(
                            Service(args, "capacity-inside", target, drafter=drafter, split=False,
                                    drafter_cores="0", service_flags=flags))}
            for repetition in range(args.repetitions):
                for n in args.concurrency:
                    for setting in settings:
                        run = services[setting].load(load_flags(args, setting != "off"), n,
                                                     args.warm, args.seconds)
                        run["inter_token_ms"] = 1e3 * n / run["tokens_per_second"]
                        runs[setting][n].append(run)
                        progress(f"{name} {repetition + 1}/{args.repetitions} {n} sessions, "
                                 f"{setting}: {run['inter_token_ms']:.2f} ms, busy "
                                 f"{run['busy']:.2f}")
        points = {s: [(n, median(r["inter_token_ms"] for r in n_runs))
                      for n, n_runs in s_runs.items()]
                  for s, s_runs in runs.items()}
        # Fixed before the comparison: one session's time without speculation, times --times-alone.
        target_ms = args.inter_token_ms or args.times_alone * points["off"][0][1]
        held = {s: sessions_at(target_ms, p) for s, p in points.items()}
        print(f"\nTarget and drafter: {name}; inter-token target {target_ms:.2f} ms\n")
        print(table(["sessions", *(f"{s}, ms per token" for s in settings)],
                    [[str(n), *(f"{points[s][i][1]:.2f}" for s in settings)]
                     for i, n in enumerate(args.concurrency)]))
        print()
        print(table(["setting", "sessions held", "of off"],
                    [[s, f"{held[s]:.1f}", f"{held[s] / held['off']:.2f}" if held["off"] else "-"]
                     for s in settings]))
        at = max((n for n in args.concurrency if n <= held["split"]), default=args.concurrency[0])
        t_v = median(r["step_ms"] for r in runs["split"][at])
        t_d = median(r["drafter_step_ms"] for r in runs["split"][at])
        busy = median(r["drafter_busy"] / r["busy"] for r in runs["split"][at])
        gain = (held["split"] / held["both on one core"] if held["both on one core"]
                else float("nan"))
        print(f"\nsplit over one core: {gain:.2f}. At {at} sessions, split: t_v = {t_v:.2f} ms a "
              f"step of {median(r['rows_per_step'] for r in runs['split'][at]):.1f} rows, t_d = "
              f"{t_d:.3f} ms a drafter's pass, 1 + g*t_d/t_v = "
              f"{1 + args.draft_length * t_d / t_v:.2f}; the drafter computes {busy:.2f} s for "
              f"each second of the verifier's: 1 + that = {1 + busy:.2f}.")
        results[name] = {"runs": runs, "inter_token_ms": target_ms, "held": held, "t_v_ms": t_v,
                         "t_d_ms": t_d, "drafter_over_verifier": busy}
    return results


class Memory(threading.Thread):
    """A service's resident memory, once per second, until told to stop."""

    def __init__(self, service: Service):
        super().__init__(daemon=True)
        self.service, self.mib, self.done = service, [], threading.Event()

    def run(self) -> None:
        while not self.done.wait(1):
            self.mib.append(self.service.resident_mib())


def overload(args, models: Models) -> dict:
    results = {}
    for name in args.targets:
        n = args.sessions
        queue = ["--max-sessions", n, "--max-waiting", n]
        flags = ["--max-tokens", args.max_tokens, "--temperature", args.temperature,
                 "--speculation", "off"]
        with Service(args, "overload", models.target(name), service_flags=service_flags(args, n),
                     flags=queue) as service:
            full = [*flags, "--concurrency", n]
            trial = service.bench([*full, "--requests", 3 * n])
            # The same time at capacity before and after the overload.
            rate = trial["requests_ok"] / trial["seconds"]
            wanted = max(int(rate * args.seconds / 4), 2 * n)
            before = service.bench([*full, "--requests", wanted])
            rate = before["requests_ok"] / before["seconds"]
            progress(f"{name}: {rate:.1f} requests/s at capacity")
            memory = Memory(service)
            memory.start()
            flood = service.bench([*flags, "--allow-refused", "--concurrency", 1024, "--rate",
                                   args.times * rate, "--requests",
                                   int(args.times * rate * args.seconds)])
            memory.done.set()
            memory.join()
            after = service.bench([*full, "--requests", wanted])
            if not service.alive():
                sys.exit(f"{name}: a service has ended; see {args.log_dir}")
        started = lambda r: r.get("started_per_second", r["requests_ok"] / r["seconds"])
        rows = [[what, f"{started(r):.1f}", str(r["requests_ok"]),
                 str(r["requests_refused"]), str(r["requests_failed"] - r["requests_refused"]),
                 f"{r['tokens_per_second']:.0f}",
                 f"{r['itl_ms']['p50']:.2f} / {r['itl_ms']['p99']:.2f}",
                 f"{r['ttft_ms']['p50']:.0f}",
                 f"{r['refusal_ms']['p50']:.1f} / {r['refusal_ms']['p99']:.1f}"
                 if r["requests_refused"] else "-"]
                for what, r in (("capacity, before", before),
                                (f"{args.times:g} times capacity", flood),
                                ("capacity, after", after))]
        print(f"\nTarget: {name}; {n} sessions, {n} may wait; {args.seconds:g} s\n")
        print(table(["load", "requests/s", "served", "refused", "failed", "tokens/s",
                     "ms per token p50 / p99", "ms to first token p50", "ms to refusal p50 / p99"],
                    rows))
        at_capacity = [before, after]
        speed = (flood["tokens_per_second"]
                 / statistics.mean(r["tokens_per_second"] for r in at_capacity))
        per_session = (statistics.mean(r["itl_ms"]["p50"] for r in at_capacity)
                       / flood["itl_ms"]["p50"])
        tenth = max(len(memory.mib) // 10, 1)
        print(f"\nAdmitted requests keep {per_session:.2f} of their speed (ms per token, p50), the "
              f"service {speed:.2f} of its tokens/s. Resident memory of the verifier: "
              f"{median(memory.mib[:tenth]):.0f} MiB in the first tenth of the flood, "
              f"{median(memory.mib[-tenth:]):.0f} MiB in the last, {max(memory.mib):.0f} MiB at "
              "most. Nothing crashed.")
        results[name] = {"before": before, "flood": flood, "after": after,
                         "resident_mib": memory.mib, "speed_kept": per_session,
                         "tokens_kept": speed}
    return results


def numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(run, *, targets: str, concurrency: str, seconds: float, quick_concurrency: str,
            repetitions: int = 3, max_tokens: int = 128):
        command = commands.add_parser(run.__name__)
        add_common_flags(command)
        command.add_argument("--targets", default=targets, help="default, deep, or both")
        command.add_argument("--deep-layers", type=int, default=64,
                             help="more layers of the deep target")
        command.add_argument("--deep-drafter-layers", type=int, default=40,
                             help="the same of the deep drafter")
        command.add_argument("--concurrency", default=concurrency)
        command.add_argument("--repetitions", type=int, default=repetitions)
        command.add_argument("--warm", type=float, default=2,
                             help="seconds of load before a measured window")
        command.add_argument("--seconds", type=float, default=seconds, help="of a measured window")
        command.add_argument("--max-tokens", type=int, default=max_tokens)
        command.add_argument("--temperature", type=float, default=1.0)
        command.add_argument("--draft-length", type=int, default=4)
        command.add_argument("--no-bf16-activations", dest="bf16_activations", action="store_false")
        command.add_argument("--quick", action="store_true", help="one short repetition")
        command.set_defaults(run=run, quick_concurrency=quick_concurrency)
        return command

    command = add(throughput, targets="default,deep", concurrency="1,4,16,64",
                  quick_concurrency="1,16", seconds=5, max_tokens=256)
    command.add_argument("--alone-tokens", type=int, default=256,
                         help="of each sequence without the service")
    add(split, targets="default,deep", concurrency="8", quick_concurrency="8", seconds=5,
        repetitions=6)
    command = add(delay, targets="default,deep", concurrency="1,16", quick_concurrency="1,16",
                  seconds=4)
    command.add_argument("--rtt-ms", default="0,5,20,50")
    command = add(capacity, targets="deep", concurrency="1,4,8,12,16,24,32",
                  quick_concurrency="1,8,16", seconds=4)
    command.add_argument("--inter-token-ms", type=float, default=0,
                         help="the target, mean over tokens; 0: --times-alone times one session's "
                              "without speculation")
    command.add_argument("--times-alone", type=float, default=5.0)
    command = add(overload, targets="default,deep", concurrency="1", quick_concurrency="1",
                  seconds=60, max_tokens=64)
    command.add_argument("--sessions", type=int, default=8,
                         help="that run at once; as many may wait")
    command.add_argument("--times", type=float, default=10,
                         help="requests a second over what can be served")

    args = parser.parse_args()
    if args.quick:
        args.repetitions, args.warm, args.concurrency = 1, 0.5, args.quick_concurrency
        args.seconds = 10 if args.run is overload else 1
        args.alone_tokens = 32
        if args.run is delay:
            args.rtt_ms = "0,20"
    args.concurrency = numbers(args.concurrency)
    args.targets = args.targets.split(",")
    if args.run is delay:
        args.rtt_ms = [float(r) for r in args.rtt_ms.split(",")]
    print(f"    {command_line()}\n\nOn {time.strftime('%Y-%m-%d')}, "
          f"{'with' if args.bf16_activations else 'without'} --bf16-activations, temperature "
          f"{args.temperature:g}, {args.max_tokens} tokens a request, g = {args.draft_length}, "
          f"{args.repetitions} repetitions of {args.seconds:g} s; deep: {args.deep_layers} more "
          "layers.")
    with tempfile.TemporaryDirectory(prefix="serving_bench_") as folder:
        write_json(args, args.run(args, Models(args, folder)))


if __name__ == "__main__":
    main()
