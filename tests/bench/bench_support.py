"""Shared by the benchmarks that start services: the services as processes, load on them, their
metrics, tables."""
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_MODELS = ROOT / "models" / "default"


def add_common_flags(parser) -> None:
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cpu")
    parser.add_argument("--target", type=Path, default=DEFAULT_MODELS / "target")
    parser.add_argument("--drafter", type=Path, default=DEFAULT_MODELS / "drafter")
    parser.add_argument("--prompts", type=Path, default=ROOT / "tests" / "bench" / "prompts.jsonl")
    parser.add_argument("--log-dir", type=Path, default=Path("/tmp"))
    parser.add_argument("--json", type=Path,
                        help="also write settings and every run's figures to this file")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def command_line() -> str:
    return " ".join(shlex.quote(a) for a in [Path(sys.argv[0]).name, *sys.argv[1:]])


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(row) + " |" for row in rows)])


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def write_json(args, results) -> None:
    if not args.json:
        return
    settings = {k: str(v) for k, v in vars(args).items() if k not in ("run", "json")}
    args.json.write_text(json.dumps({"command": command_line(), "settings": settings,
                                     "results": results},
                                    indent=1), encoding="utf-8")


def deepen(args, source: Path, layers: int, folder: Path) -> Path:
    """The checkpoint with additional layers that change nothing: as slow as one that does not fit
    into the cache."""
    path = folder / f"{source.name}-{layers}"
    if layers == 0:
        return source
    if not path.exists():
        subprocess.run([args.build / "bin" / "deepen_checkpoint", source, path, str(layers)],
                       check=True)
    return path


class Processes:
    """Programs of the build, terminated together in the reverse order of their start."""

    def __init__(self, args):
        self.args = args
        self.running: list[subprocess.Popen] = []

    def start(self, name: str, program: str, *flags) -> tuple[subprocess.Popen, Path]:
        log_path = self.args.log_dir / f"{name}.log"
        with open(log_path, "w", encoding="utf-8") as log:
            self.running.append(subprocess.Popen([self.args.build / "bin" / program,
                                                  *map(str, flags)],
                                                 stdout=log, stderr=log))
        return self.running[-1], log_path

    def stop(self) -> None:
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait()
        self.running = []


class Service:
    """A verifier, and its drafter if it has one: a process behind a delay ("split") or inside
    ("colocated")."""

    def __init__(self, args, name: str, target: Path, *, drafter: Path | None = None,
                 split: bool = True, rtt_ms: float = 0, ahead: bool = False, cores: str = "0",
                 drafter_cores: str = "1", flags=(), drafter_flags=(), service_flags=()):
        self.args = args
        self.name = name
        self.processes = Processes(args)
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self.drafter_metrics_address = None
        verifier = ["--model", target, "--listen", self.address, "--metrics", self.metrics_address,
                    "--cores", cores, *service_flags, *flags]
        ahead_flags = [] if ahead else ["--ahead-tokens", "0"]
        if drafter is None or split:
            self.verifier, _ = self.processes.start(f"{name}-verifier", "outrider-verifier",
                                                    *verifier)
        else:
            inside = ["--draft-model", drafter, "--draft-cores", drafter_cores,
                      "--draft-ahead-tokens", "0"]
            self.verifier, _ = self.processes.start(f"{name}-colocated", "outrider-verifier",
                                                    *inside, *verifier)
        self._await(drafters=0)
        if drafter is not None and split:
            dialled = self.address
            if rtt_ms > 0:
                _, log = self.processes.start(f"{name}-proxy", "delay_proxy", "--to", self.address,
                                              "--rtt-ms", rtt_ms)
                dialled = f"127.0.0.1:{self._await_port(log)}"
            self.drafter_metrics_address = f"127.0.0.1:{free_port()}"
            self.processes.start(f"{name}-drafter", "outrider-drafter", "--model", drafter,
                                 "--verifier", dialled, "--listen", "", "--metrics",
                                 self.drafter_metrics_address, "--cores", drafter_cores,
                                 *ahead_flags, *service_flags, *drafter_flags)
        if drafter is not None:
            self._await(drafters=1)

    def _fail(self, what: str):
        self.stop()
        sys.exit(f"{self.name}: {what}; see its logs in {self.args.log_dir}")

    def _await_port(self, log: Path) -> int:
        for _ in range(100):
            if found := re.search(r"port=(\d+)", log.read_text(encoding="utf-8")):
                return int(found.group(1))
            time.sleep(0.05)
        self._fail("the proxy did not come up")

    def _await(self, drafters: int) -> None:
        for _ in range(600):
            status = subprocess.run([self.args.build / "bin" / "outrider", "status", "--verifier",
                                     self.address, "--json"], capture_output=True, text=True,
                                    check=False)
            if (status.returncode == 0
                    and len(json.loads(status.stdout).get("drafters", [])) >= drafters):
                return
            if self.verifier.poll() is not None:
                break
            time.sleep(0.1)
        self._fail("the services did not come up")

    def stop(self) -> None:
        self.processes.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def bench_command(self, flags) -> list[str]:
        return [str(a) for a in [self.args.build / "bin" / "outrider", "bench", "--verifier",
                                 self.address, "--prompts", self.args.prompts, "--ignore-eos",
                                 "--json", *flags]]

    def bench(self, flags) -> dict:
        command = self.bench_command(flags)
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)}: {run.stderr}")
        return json.loads(run.stdout)

    def load(self, flags, concurrency: int, warm: float, seconds: float) -> dict:
        """Rates in a window with all sessions running: neither the start nor the end of the load
        counts."""
        command = self.bench_command([*flags, "--concurrency", concurrency, "--requests", 1000000])
        with subprocess.Popen(command, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as client:
            while self.metrics()["num_requests_running"] == 0:
                time.sleep(0.02)
            time.sleep(warm)
            before, drafter_before, start = self.metrics(), self.drafter_metrics(), time.monotonic()
            cpu_before = self.pinned_cpu_seconds()
            time.sleep(seconds)
            cpu = self.pinned_cpu_seconds() - cpu_before
            after, drafter_after, end = self.metrics(), self.drafter_metrics(), time.monotonic()
            client.kill()
        while self.metrics()["num_requests_running"] > 0:
            time.sleep(0.02)
        took = end - start
        per_second = {k: (v - before.get(k, 0)) / took for k, v in after.items()}
        drafting = {k: (v - drafter_before.get(k, 0)) / took for k, v in drafter_after.items()}
        drafts = per_second["spec_decode_num_drafts_total"]
        return {
            "tokens_per_second": per_second["generation_tokens_total"],
            "rows_per_second": per_second["batch_rows_sum"],
            "rows_per_cpu_second": per_second["batch_rows_sum"] * took / max(cpu, 1e-9),
            "rounds_per_second": per_second["rounds_total"],
            "drafted_share": drafts / max(per_second["rounds_total"], 1e-9),
            "accepted_per_round": per_second["spec_decode_num_accepted_tokens_total"]
            / max(drafts, 1e-9), "busy": per_second["engine_step_seconds_sum"],
            "step_ms": 1e3 * per_second["engine_step_seconds_sum"]
            / max(per_second["engine_step_seconds_count"],
                1e-9),
            "rows_per_step": per_second["batch_rows_sum"]
            / max(per_second["engine_step_seconds_count"], 1e-9),
            "draft_timeouts_per_second": per_second["draft_timeouts_total"],
            "drafter_busy": drafting.get("drafter_forward_seconds_sum", 0),
            "drafter_step_ms": 1e3 * drafting.get("drafter_forward_seconds_sum", 0)
            / max(drafting.get("drafter_forward_seconds_count", 0), 1e-9),
        }

    def metrics(self) -> dict[str, float]:
        return scrape(self.metrics_address)

    def drafter_metrics(self) -> dict[str, float]:
        return scrape(self.drafter_metrics_address) if self.drafter_metrics_address else {}

    def pinned_cpu_seconds(self) -> float:
        """CPU time of the threads that --cores has pinned: the engine's, with one compute
        thread."""
        tasks = Path(f"/proc/{self.verifier.pid}/task")
        return sum(int((tasks / str(tid) / "schedstat").read_text(encoding="utf-8").split()[0])
                   * 1e-9
                   for tid in map(int, os.listdir(tasks)) if len(os.sched_getaffinity(tid)) == 1)

    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.verifier.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024

    def alive(self) -> bool:
        return all(process.poll() is None for process in self.processes.running)


def scrape(address: str) -> dict[str, float]:
    """Our metrics without their prefix, summed over labels; without histogram buckets."""
    with urllib.request.urlopen(f"http://{address}/metrics") as page:
        text = page.read().decode()
    values: dict[str, float] = {}
    for name, value in re.findall(r"^outrider_(\w+?)(?:\{.*?\})? (\S+)$", text, re.M):
        if not name.endswith("_bucket"):
            values[name] = values.get(name, 0) + float(value)
    return values
