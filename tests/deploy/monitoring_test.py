#!/usr/bin/env python3
"""The Prometheus rules and the Grafana dashboard against the real programs.

promtool checks and tests the rules; then a real Prometheus scrapes a running pair under load, and
every expression of the dashboard and of the recording rules must return numbers.

  monitoring_test.py SOURCE_DIR BINARY_DIR
"""

import json
import math
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from processes import TIME_LIMIT, Processes, need, small_pair



def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def metrics_port(log):
    return int(re.search(r"metrics_port=(\d+)", log).group(1))


def check_files(rules):
    for command in (
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
    ):
        subprocess.run(["promtool", *command], cwd=rules, check=True)


def dashboard_expressions(path):
    """Title and expression of every panel, as for all models."""
    panels = json.loads(path.read_text())["panels"]
    return [
        (panel["title"], target["expr"].replace("$model", ".*").replace("$__rate_interval", "1m"))
        for panel in panels
        for target in panel.get("targets", [])
    ]


def rule_expressions(rules):
    """Of recording rules and alerts, as the file has them."""
    return re.split(r"^ *- (?:record|alert):", (rules / "rules.yml").read_text(), flags=re.M)[1:]


class Prometheus:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path, **parameters):
        url = self.base + path + "?" + urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(url, timeout=TIME_LIMIT) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{parameters}: {error.read().decode()}") from error

    def has_numbers(self, expression):
        result = self.get("query", query=expression)["result"]
        return any(math.isfinite(float(series["value"][1])) for series in result)

    def rules(self):
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]


def check_exposed(expressions, ports):
    """Every metric that an expression names is served. Programs may be older than the sources."""
    exposed = set()
    for port in ports:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIME_LIMIT) as page:
            exposed |= set(re.findall(r"^# TYPE (\S+)", page.read().decode(), re.M))
    for expression in expressions:
        for name in re.findall(r"\b(?:outrider_|process_|vllm:)\w+", expression):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            if not {name, base} & exposed:
                raise SystemExit(f"no /metrics serves {name}, which this expression needs: "
                                 f"{expression}\nBuild outrider-verifier and outrider-drafter "
                                 "again if they are older than the sources")


def await_true(what, condition):
    """`what`: its words, made when they are needed."""
    until = time.monotonic() + TIME_LIMIT
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"not within {TIME_LIMIT} s: {what()}")
        time.sleep(0.2)


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1):
            return True
    except OSError:
        return False


class Pair:
    def __init__(self, processes, binaries):
        self.processes, self.binaries = processes, binaries
        self.models = small_pair(binaries)
        line = processes.start(
            "verifier",
            [binaries / "outrider-verifier", "--model", self.models / "target", "--listen",
             "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--vllm-metrics"],
            await_line=" serving ",
        ).line
        self.port = int(re.search(r" port=(\d+)", line).group(1))
        self.metrics = metrics_port(line)
        self.drafter = self.start_drafter()

    def start_drafter(self):
        return self.processes.start(
            "drafter",
            [self.binaries / "outrider-drafter", "--model", self.models / "drafter", "--verifier",
             f"127.0.0.1:{self.port}", "--metrics", "127.0.0.1:0"],
            await_line=" attached ",
        )


def start_prometheus(processes, rules, folder, targets):
    """The shipped configuration, but for the targets and the pace."""
    config = (rules / "prometheus.yml").read_text()
    config = config.replace("15s", "1s").replace("rules.yml", str(rules / "rules.yml"))
    for old, new in targets.items():
        assert old in config, old
        config = config.replace(old, new)
    (folder / "prometheus.yml").write_text(config)
    port = free_port()
    processes.start(
        "prometheus",
        ["prometheus", f"--config.file={folder}/prometheus.yml",
         f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
    )
    await_true(lambda: "Prometheus is ready", lambda: answers(port))
    return Prometheus(port)


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    need("promtool", "prometheus")
    rules = source / "deploy/prometheus"
    check_files(rules)
    panels = dashboard_expressions(source / "deploy/grafana/outrider.json")
    assert len(panels) > 40

    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        pair = Pair(processes, binaries)
        drafter = metrics_port((pathlib.Path(folder) / "drafter.log").read_text())
        check_exposed([expression for _, expression in panels] + rule_expressions(rules),
                      (pair.metrics, drafter))
        prometheus = start_prometheus(
            processes, rules, pathlib.Path(folder),
            {"127.0.0.1:7301": f"127.0.0.1:{pair.metrics}",
             "127.0.0.1:7302": f"127.0.0.1:{drafter}"},
        )
        bench = [binaries / "outrider", "bench", "--verifier", f"127.0.0.1:{pair.port}",
                 "--prompts", source / "tests/bench/prompts.jsonl", "--max-tokens", "64",
                 "--requests", "16"]
        # A rate takes two scrapes, and load between them.
        await_true(lambda: "both services were scraped",
                   lambda: prometheus.has_numbers("sum(up) == 2"))
        recorded = [(r["name"], r["query"]) for r in prometheus.rules() if r["type"] == "recording"]
        wanted = panels + recorded

        def answered_under_load():
            # As the controller chooses, then with drafts all the time.
            for flags in (["--concurrency", "4"], ["--concurrency", "1", "--draft-length", "4"]):
                subprocess.run([*bench, *flags], check=True, stdout=subprocess.DEVNULL)
            wanted[:] = [entry for entry in wanted if not prometheus.has_numbers(entry[1])]
            return not wanted

        await_true(
            lambda: "numbers of " + "; ".join(f"{title}: {expr}" for title, expr in wanted),
            answered_under_load,
        )
        check_rules(prometheus)
        check_vllm_names(prometheus)
        check_why_drafters_left(pair, prometheus)
        print(f"{len(panels)} expressions of the dashboard and {len(recorded)} of the rules "
              "return numbers")


def check_rules(prometheus):
    """Every rule is evaluated without an error; every metric that an alert names is there."""
    await_true(lambda: "every rule was evaluated",
               lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()))
    for rule in prometheus.rules():
        assert rule["health"] == "ok", rule
        for name in re.findall(r"outrider[_:][a-zA-Z0-9_:]+", rule["query"]):
            assert prometheus.get("query", query=f"count({name})")["result"], (rule["name"], name)
        if rule["type"] == "alerting":
            assert rule["state"] != "firing", rule


def check_vllm_names(prometheus):
    """Tools made for vLLM find its names, and the values are ours."""
    for name in ("num_requests_running", "generation_tokens_total",
                 "time_to_first_token_seconds_count", "spec_decode_num_accepted_tokens_total"):
        # In one query: between two there may be a scrape, the last one of the load's end.
        equal = f"sum(outrider_{name}) == sum(vllm:{name})"
        await_true(lambda: equal, lambda: prometheus.has_numbers(equal))
    labels = prometheus.get("query", query="vllm:generation_tokens_total")["result"][0]["metric"]
    assert labels["engine"] == "0" and labels["model_name"], labels


def check_why_drafters_left(pair, prometheus):
    def await_left(reason):
        expected = f'sum(outrider_drafters_left_total{{reason="{reason}"}}) == 1'
        await_true(lambda: expected, lambda: prometheus.has_numbers(expected))

    pair.drafter.kill()
    await_left("gone")
    pair.start_drafter().terminate()
    await_left("closed")
    assert prometheus.has_numbers("sum(outrider_drafters_left_total) == 2")


if __name__ == "__main__":
    main()
