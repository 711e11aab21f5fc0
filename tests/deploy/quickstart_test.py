#!/usr/bin/env python3
"""Runs the commands of docs/kubernetes.md, and of the 70B model in docs/scaling.md, as printed.

kubectl and helm are the real ones, and talk to a stub of the API server (stub_cluster.py), which
enforces schemas and the Pod Security level `restricted`. `outrider plan` must print what the page
shows. Commands that need more than that are listed in NEEDED, with the reason; a command in neither
group fails the test.

  quickstart_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from kubernetes_tools import need_tools, schema_errors

TOOLS = need_tools(sys.argv[2])

from stub_cluster import (
    StubCluster,
)  # noqa: E402, after need_tools: it may go on under another interpreter

# Beginnings of commands that this test cannot run, and what they need.
NEEDED = {
    "docker ": "a container runtime",
    "kind load ": "a cluster of kind, and a container runtime",
    "minikube image ": "a cluster of minikube",
    "kubectl -n outrider rollout status ": "controllers that make pods, and nodes that run them",
}
PRINTING = "outrider plan "  # what the page shows after it is what it prints
RUN = ("kubectl ", "helm ", "openssl ", PRINTING)
# What is in place before a command; each runs in a cluster of its own.
BEFORE = "kubectl apply -k deploy/kustomize/overlays/cpu-demo"


def commands(page):
    """The commands in a page's indented blocks, each with what the page shows as its output."""
    found = []
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.M):
        lines = block.replace(" \\\n", " ").splitlines()
        for line in (line.strip() for line in lines):
            if line.startswith((*NEEDED, *RUN)):
                found.append([re.sub(r"\s+", " ", line), ""])
            elif line and not line.startswith("#"):
                if not found or not found[-1][0].startswith(PRINTING):
                    raise SystemExit(f"neither run nor in NEEDED: {line}")
                found[-1][1] += line + "\n"
    inline = re.findall(r"`((?:kubectl|helm) [^`\n]+)`", page)
    found += [
        [line, ""] for line in inline if line.startswith(RUN) and " -" in line and "/" in line
    ]
    return found


class Shell:
    """A folder with the source tree's deploy/, the tools on its PATH, and a cluster."""

    def __init__(self, folder, source, binaries, cluster):
        self.folder = pathlib.Path(folder)
        (self.folder / "deploy").symlink_to(source / "deploy")
        (self.folder / "config").write_text(json.dumps(cluster.kubeconfig()))
        path = [str(tool.parent) for tool in TOOLS.values()] + [
            str(binaries.resolve()),
            "/usr/bin",
            "/bin",
        ]
        self.environment = {
            "PATH": ":".join(path),
            "HOME": folder,
            "KUBECONFIG": str(self.folder / "config"),
        }

    def run(self, command):
        for name in re.findall(r"--from-file=(?:[\w.]+=)?([\w.]+)", command):
            (self.folder / name).write_text("of a test")
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )


def check_command(command, printed, source, binaries):
    with StubCluster() as cluster, tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, source, binaries, cluster)
        if command.startswith(("kubectl delete ", "kubectl label ")):
            shell.run(BEFORE)
        # A terminal and the end of the pod need a node.
        done = shell.run(command.replace(" -it --rm", ""))
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if command.startswith(PRINTING):
            squeezed = [re.sub(r"\s+", " ", text).strip() for text in (printed, done.stdout)]
            # The page shows its table, which comes first.
            assert squeezed[0] and squeezed[1].startswith(squeezed[0]), (
                f"{command} prints\n{done.stdout}")
        if command.startswith(("kubectl apply -k", "helm install")) or "| kubectl apply" in command:
            assert cluster.objects("StatefulSet") and cluster.objects("Deployment"), command
        if command.startswith("kubectl delete -k"):
            assert not cluster.objects("StatefulSet"), cluster.objects("StatefulSet")
        if " run client " in command:
            (pod,) = cluster.objects("Pod")
            (container,) = pod["spec"]["containers"]
            assert pod["metadata"]["labels"] == {"outrider-client": "true"}, pod
            assert container["command"][:2] == ["outrider", "generate"], container
        if "--set image.repository=" in command or "| sed " in command:
            images = {
                container["image"]
                for workload in cluster.objects("StatefulSet")
                for container in workload["spec"]["template"]["spec"]["containers"]
            }
            assert images == {"registry.example/outrider:cpu"}, images
        return done.stdout


def check_refusals(source, binaries):
    """The stub does refuse: a client without the overrides, and objects with unknown fields."""
    with StubCluster() as cluster, tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, source, binaries, cluster)
        done = shell.run(
            "kubectl -n outrider run client --image=outrider:cpu --restart=Never -- outrider status"
        )
        assert done.returncode != 0 and "violates PodSecurity" in done.stderr, done.stderr
        assert not cluster.objects("Pod")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"prots": []},
    }
    assert any("prots" in error for error in schema_errors([service]))
    monitor = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "a"},
        "spec": {"selector": {}, "podMetricsEndpoints": [{"port": "metrics", "paths": "/metrics"}]},
    }
    assert schema_errors([monitor]) == [
        "PodMonitor a: unknown field .spec.podMetricsEndpoints[0].paths"
    ]


def check_notes(source, binaries):
    """The notes of the chart name what was asked for, and each warning appears when it should."""
    with StubCluster() as cluster, tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, source, binaries, cluster)
        for flags, words, not_words in (
            (
                "",
                ["dns:///pair-verifiers.llm:7300", "names no registry", "default pair"],
                ["HTTP:", "mutual TLS", "KEDA"],
            ),
            (
                "--set http.enabled=true,tls.enabled=true",
                ["https://pair.llm:8000/v1", "--tls-ca"],
                [],
            ),
            ("--set tokens.clientSecret=a", ["--token-file /tokens/clients/tokens"], []),
            (
                "--set image.repository=r.example/o,models.source=claim,drafter.enabled=false",
                ["no drafters"],
                ["names no registry", "default pair"],
            ),
            ("--set keda.enabled=true", ["podMonitor.enabled is false"], []),
        ):
            done = shell.run(f"helm install pair deploy/helm/outrider -n llm --dry-run {flags}")
            assert done.returncode == 0, done.stderr
            notes = done.stdout.split("NOTES:")[1]
            for word in words:
                assert word in notes, (flags, word, notes)
            for word in not_words:
                assert word not in notes, (flags, word, notes)


def main():
    source, binaries = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    found = commands((source / "docs/kubernetes.md").read_text())
    scaling = (source / "docs/scaling.md").read_text()
    found += commands(re.search(r"^## A 70B model(?:.*\n)+?(?=## )", scaling, re.M)[0])
    ran, needed = [], []
    for command, printed in found:
        reason = next((why for start, why in NEEDED.items() if command.startswith(start)), None)
        if reason:
            needed.append(f"  {command}\n    needs {reason}")
            continue
        check_command(command, printed, source, binaries)
        ran.append(command)
    assert len(ran) >= 9 and any(" run client " in command for command in ran), ran
    unused = [
        start for start in NEEDED if not any(command.startswith(start) for command, _ in found)
    ]
    assert not unused, f"NEEDED names commands that are not on the page: {unused}"
    check_refusals(source, binaries)
    check_notes(source, binaries)
    print(f"{len(ran)} commands of two pages ran; not run:\n" + "\n".join(needed))


if __name__ == "__main__":
    main()
