#!/usr/bin/env python3
"""deploy/compose against the programs, the image and itself, without a container runtime.

docker-compose, where it is installed, checks the file's form. Then flags, ports, mounts, models,
times and what Prometheus and Grafana read are looked at, and files that are broken on purpose must
be told from good ones.

  compose_test.py SOURCE_DIR BINARY_DIR
"""

import copy
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from processes import SKIPPED

try:
    import yaml

    from manifests import Programs
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(SKIPPED)

PROMETHEUS_PORT, GRAFANA_PORT = 9090, 3000


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text).group(1))


def command_flags(service):
    return dict((word + "=").split("=", 1) for word in service["command"][1:])


def listening(service):
    """The ports that the service's command listens on, by flag."""
    values = command_flags(service)
    return {
        flag: int(values[flag].rstrip("=").rsplit(":", 1)[1])
        for flag in ("--listen", "--metrics", "--http")
        if flag in values
    }


class Checker:
    def __init__(self, project, files, source, programs):
        self.services, self.files = project["services"], files
        self.volumes = project["volumes"]
        self.folder, self.programs = source / "deploy/compose", programs
        self.dockerfile = (source / "deploy/docker/Dockerfile").read_text()
        self.found = []

    def expect(self, good, words):
        if not good:
            self.found.append(words)

    def run(self):
        for name, service in self.services.items():
            if "command" in service:
                self.check_program(name, service)
            else:
                self.expect(
                    re.fullmatch(r"\S+:v?\d+\.\d+\.\d+", service["image"]),
                    f"{name}: image has no version",
                )
            self.check_mounts(name, service)
            self.check_ports(name, service)
        self.check_pair()
        self.check_monitoring()
        return self.found

    def check_program(self, name, service):
        program = service["command"][0]
        for flag in command_flags(service):
            self.expect(
                flag in self.programs.flags[program], f"{name}: {program} has no flag {flag}"
            )
        model = command_flags(service)["--model"].rstrip("=")
        self.expect(f" {model}\n" in self.dockerfile, f"{name}: the image has no model {model}")
        self.expect(
            f"-t {service['image'].split(':-')[1].rstrip('}')} " in self.dockerfile,
            f"{name}: the Dockerfile names another image",
        )
        self.expect(
            service.get("read_only") and service.get("cap_drop") == ["ALL"], f"{name}: has rights"
        )

    def check_mounts(self, name, service):
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            there = (
                (self.folder / source).is_file()
                if source.startswith(".")
                else source in self.volumes
            )
            self.expect(there, f"{name}: mounts {source}, which is not there")

    def check_ports(self, name, service):
        inside = {"prometheus": [PROMETHEUS_PORT], "grafana": [GRAFANA_PORT]}.get(name)
        inside = inside or listening(service).values()
        for published in service.get("ports", []):
            address, _, port = published.split(":")
            self.expect(address == "127.0.0.1", f"{name}: port {port} is open to the network")
            self.expect(int(port) in inside, f"{name}: nothing listens on port {port}")

    def check_pair(self):
        verifier, drafter = self.services["verifier"], self.services["drafter"]
        port = listening(verifier)["--listen"]
        self.expect(
            command_flags(drafter)["--verifier"] == f"dns:///verifier:{port}=",
            "drafters dial elsewhere",
        )
        probe = verifier["healthcheck"]["test"]
        self.expect(probe[1:3] == ["outrider", "status"], "the probe is not a command of outrider")
        self.expect(f"--verifier=127.0.0.1:{port}" in probe, "the probe asks another port")
        drain = int(command_flags(verifier)["--drain-timeout"].rstrip("="))
        self.expect(
            seconds(verifier["stop_grace_period"]) > drain, "the grace period ends before the drain"
        )

    def check_monitoring(self):
        for job in self.files["prometheus.yml"]["scrape_configs"]:
            service = job["job_name"].removeprefix("outrider-")
            targets = [target for c in job.get("static_configs", []) for target in c["targets"]]
            targets += [
                f"{name}:{c['port']}" for c in job.get("dns_sd_configs", []) for name in c["names"]
            ]
            for target in targets:
                name, port = target.split(":")
                self.expect(name == service, f"job {job['job_name']}: scrapes {target}")
                self.expect(
                    int(port) == listening(self.services[name])["--metrics"],
                    f"{target}: no metrics there",
                )
        (grafana,) = self.files["datasources.yaml"]["datasources"]
        self.expect(
            grafana["url"] == f"http://prometheus:{PROMETHEUS_PORT}", "Grafana asks elsewhere"
        )


# What somebody could get wrong, and a word of what must be said about it. p: services, f: files.
MISTAKES = [
    (lambda p, f: p["verifier"]["command"].append("--metrcs=0.0.0.0:1"), "no flag"),
    (lambda p, f: p["drafter"]["command"].append("--policy=fixed"), "no flag"),
    (lambda p, f: p["drafter"]["command"].__setitem__(1, "--model=/models/drafter"), "no model"),
    (lambda p, f: p["drafter"].update(image="${OUTRIDER_IMAGE:-outrider:latest}"), "another image"),
    (lambda p, f: p["drafter"].update(read_only=False), "rights"),
    (lambda p, f: p["grafana"].update(image="grafana/grafana"), "no version"),
    (
        lambda p, f: p["prometheus"]["volumes"].append("../prometheus/rule.yml:/r.yml:ro"),
        "not there",
    ),
    (lambda p, f: p["prometheus"]["volumes"].append("data:/data"), "not there"),
    (lambda p, f: p["verifier"]["ports"].append("7300:7300:7300"), "open"),
    (lambda p, f: p["verifier"]["ports"].append("127.0.0.1:7302:7302"), "nothing listens"),
    (
        lambda p, f: p["drafter"]["command"].__setitem__(2, "--verifier=dns:///verifier:7301"),
        "dial",
    ),
    (
        lambda p, f: p["verifier"]["healthcheck"]["test"].__setitem__(
            3, "--verifier=127.0.0.1:7301"
        ),
        "probe",
    ),
    (lambda p, f: p["verifier"].update(stop_grace_period="30s"), "grace"),
    (
        lambda p, f: f["prometheus.yml"]["scrape_configs"][0].update(job_name="outrider-drafter"),
        "scrapes",
    ),
    (
        lambda p, f: f["prometheus.yml"]["scrape_configs"][1]["dns_sd_configs"][0].update(
            port=7303
        ),
        "no metrics",
    ),
    (
        lambda p, f: f["datasources.yaml"]["datasources"][0].update(url="http://127.0.0.1:9090"),
        "Grafana",
    ),
]


def check_form(text, folder):
    """By docker-compose; Debian's is too old to know the project's name."""
    if shutil.which("docker-compose") is None:
        return "not by docker-compose, which is not installed"
    text = re.sub(r"^name: .*\n", "", text, flags=re.MULTILINE)
    subprocess.run(
        ["docker-compose", "--project-directory", folder, "-f", "-", "config", "-q"],
        input=text,
        text=True,
        check=True,
    )
    return "by docker-compose"


def check_prometheus(folder):
    """As the container sees it: both files in one folder."""
    if shutil.which("promtool") is None:
        return
    with tempfile.TemporaryDirectory() as etc:
        shutil.copy(folder / "prometheus.yml", etc)
        shutil.copy(folder.parent / "prometheus/rules.yml", etc)
        subprocess.run(["promtool", "check", "config", "prometheus.yml"], cwd=etc, check=True)


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder = source / "deploy/compose"
    text = (folder / "compose.yaml").read_text()
    form = check_form(text, folder)
    check_prometheus(folder)
    project = yaml.safe_load(text)
    files = {
        name: yaml.safe_load((folder / name).read_text())
        for name in ("prometheus.yml", "datasources.yaml")
    }
    programs = Programs(source, binaries)
    found = Checker(project, files, source, programs).run()
    assert not found, "\n".join(found)
    for index, (spoil, word) in enumerate(MISTAKES):
        bad, bad_files = copy.deepcopy(project), copy.deepcopy(files)
        spoil(bad["services"], bad_files)
        found = Checker(bad, bad_files, source, programs).run()
        assert any(word in problem for problem in found), (index, word, found)
    print(f"compose.yaml is sound, {len(MISTAKES)} mistakes are seen; its form was checked {form}")


if __name__ == "__main__":
    main()
