#!/usr/bin/env python3
"""The Kubernetes manifests against themselves and the programs, without a cluster.

Every overlay is rendered by `kubectl kustomize`; then selectors, ports, probes, flags, times and
rights are looked at (manifests.py), and manifests that are broken on purpose must be told from good
ones. The image's packages are those that the programs are linked with.

  manifests_test.py SOURCE_DIR BINARY_DIR
"""

import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from kubernetes_tools import need_tools
from processes import SKIPPED, Processes, small_pair

try:
    import yaml

    from manifests import OVERLAYS, Programs, dashboard_of, problems
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(SKIPPED)


def kubectl():
    """On the PATH, or as scripts/clients.sh installs it."""
    return shutil.which("kubectl") or need_tools(sys.argv[2])["kubectl"]


# Before anything else: need_tools may go on under another interpreter.
KUBECTL = kubectl()


def render(folder):
    rendered = subprocess.run([KUBECTL, "kustomize", folder], check=True, capture_output=True)
    return rendered.stdout.decode()


def decode_typed(text):
    """kubectl's own types: a word where a number belongs is an error, unknown fields are not."""
    workloads = [o for o in yaml.safe_load_all(text) if o["kind"] in ("Deployment", "StatefulSet")]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump_all(workloads, file)
        file.flush()
        subprocess.run([KUBECTL, "set", "image", "--local", "-f", file.name, "*=image", "-o",
                        "name"],
                       check=True, stdout=subprocess.DEVNULL)


def find(objects, kind, name):
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)


def container(objects, kind, name):
    return find(objects, kind, name)["spec"]["template"]["spec"]["containers"][0]


def route(objects):
    return find(objects, "HTTPRoute", "outrider")["spec"]


def scaled(objects, component):
    return find(objects, "ScaledObject", f"outrider-{component}")["spec"]


def verifier(objects):
    return container(objects, "StatefulSet", "outrider-verifier")


def drafter(objects):
    return container(objects, "Deployment", "outrider-drafter")


def pod(objects):
    return find(objects, "StatefulSet", "outrider-verifier")["spec"]["template"]


def set_arg(box, old, new):
    box["args"] = [arg.replace(old, new) for arg in box["args"]]


# What somebody could get wrong in the base, and a word of what must be said about it.
MISTAKES = [
    (lambda o: pod(o)["metadata"]["labels"].pop("app.kubernetes.io/component"), "selector"),
    (lambda o: find(o, "Service", "outrider")["spec"]["selector"].update(x="y"), "selects nothing"),
    (lambda o: find(o, "PodDisruptionBudget", "outrider-drafter")["spec"]["selector"]["matchLabels"]
     .update(x="y"), "selects nothing"),
    (lambda o: find(o, "NetworkPolicy", "outrider-drafter")["spec"]["egress"][0]["to"][0]
     ["podSelector"]["matchLabels"].update({"app.kubernetes.io/name": "other"}), "selects nothing"),
    (lambda o: find(o, "NetworkPolicy", "outrider-verifier")["spec"]["ingress"][0]["ports"][0]
     .update(port="http"), "no port"),
    (lambda o: find(o, "NetworkPolicy", "outrider-drafter")["spec"]["egress"][0]["ports"][0]
     .update(port=7301), "may not dial"),
    (lambda o: find(o, "Service", "outrider-verifiers")["spec"]["ports"][0]
     .update(targetPort="web"), "no port"),
    (lambda o: set_arg(verifier(o), "--metrics=0.0.0.0:7301", "--metrics=0.0.0.0:7302"), "ports"),
    (lambda o: set_arg(verifier(o), "--vllm-metrics", "--vlm-metrics"), "no flag"),
    (lambda o: set_arg(verifier(o), "--allow-plaintext", "--log-json"), "plaintext"),
    (lambda o: set_arg(drafter(o), "--name=$(POD_NAME)", "--policy=fixed"), "no flag"),
    (lambda o: set_arg(drafter(o), "dns:///outrider-verifiers",
                       "outrider-verifier-0.outrider-verifiers"),
     "dials"),
    (lambda o: find(o, "Service", "outrider-verifiers")["spec"].update(
        publishNotReadyAddresses=True),
     "not ready"),
    (lambda o: verifier(o)["readinessProbe"]["grpc"].update(port=7301), "Probe"),
    (lambda o: verifier(o)["readinessProbe"]["grpc"].update(service="outrider.v1.Drafting"),
     "Probe"),
    (lambda o: verifier(o).update(livenessProbe={"grpc": {"port": 7300}}), "fill"),
    (lambda o: drafter(o).update(startupProbe={"grpc": {"port": 7303}}), "fill"),
    (lambda o: drafter(o)["livenessProbe"]["httpGet"].update(path="/ready"), "/metrics"),
    (lambda o: find(o, "Deployment", "outrider-drafter")["spec"].pop("strategy"), "GPU"),
    (lambda o: find(o, "Deployment", "outrider-drafter")["spec"].pop("progressDeadlineSeconds"),
     "rollout"),
    (lambda o: pod(o)["spec"].update(terminationGracePeriodSeconds=60), "grace"),
    (lambda o: verifier(o).pop("resources"), "resources"),
    (lambda o: verifier(o)["resources"]["limits"].update(memory="1Gi"), "memory: limits"),
    (lambda o: verifier(o)["args"].remove("--kv-tokens=16384"), "memory: requests"),
    (lambda o: drafter(o)["args"].append("--kv-tokens=1000000"), "memory: requests"),
    (lambda o: verifier(o)["args"].append("--threads=3"), "twice"),
    (lambda o: drafter(o)["resources"]["limits"].update({"nvidia.com/gpu": "1"}), "GPU"),
    (lambda o: verifier(o)["args"].append("--device=cuda:0"), "GPU"),
    (lambda o: verifier(o)["args"].append("--http=0.0.0.0:8000"), "ports"),
    (lambda o: drafter(o)["securityContext"].update(readOnlyRootFilesystem=False), "root"),
    (lambda o: pod(o)["spec"]["securityContext"].pop("runAsNonRoot"),
     "restricted: verifier: runAsNonRoot"),
    (lambda o: pod(o)["spec"]["securityContext"].pop("seccompProfile"),
     "restricted: model: seccompProfile"),
    (lambda o: drafter(o)["securityContext"].pop("capabilities"),
     "restricted: drafter: capabilities"),
    (lambda o: drafter(o)["securityContext"].pop("allowPrivilegeEscalation"),
     "restricted: drafter: allow"),
    (lambda o: pod(o)["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
     "restricted: volume host"),
    (lambda o: verifier(o)["args"].append("--trace-file=/models/spans.jsonl"), "cannot be written"),
    (lambda o: verifier(o)["args"].append("--client-tokens=/tokens/clients/tokens"),
     "no mounted volume"),
    (lambda o: verifier(o).pop("env") and verifier(o)["args"].append("--http-model=$(POD_NAME)"),
     "no variable"),
    (lambda o: drafter(o)["volumeMounts"][0].update(name="model"), "volume"),
]


# The same in overlays/gpu.
GPU_MISTAKES = [
    (lambda o: scaled(o, "verifier")["triggers"].pop(), "running requests: []"),
    (lambda o: verifier(o)["args"].append("--max-sessions=64"), "running requests: [204]"),
    (lambda o: scaled(o, "drafter").update(minReplicaCount=0), "nothing is measured"),
    (lambda o: scaled(o, "drafter")["triggers"][0]["metadata"].update(
        query='sum(rate(outrider_drafter_draft_seconds_sum{namespace="outrider"}[1m]))'),
     "other releases"),
]


# The same in overlays/gateway.
GATEWAY_MISTAKES = [
    (lambda o: find(o, "NetworkPolicy", "outrider-verifier")["spec"]["ingress"][0]["from"].pop(),
     "no gateway"),
    (lambda o: find(o, "HTTPRoute", "outrider")["spec"]["rules"][0]["backendRefs"][0].update(
        port=80), "no service"),
    (lambda o: route(o).pop("parentRefs"), "Gateway API: parentRefs is no list"),
    (lambda o: route(o)["parentRefs"][0].pop("name"), "Gateway API: parentRefs has no name"),
    (lambda o: route(o)["parentRefs"][0].update(gateway="public"), "has no field gateway"),
    (lambda o: route(o)["hostnames"].append("https://outrider.example"), "hostnames: 'https"),
    (lambda o: route(o)["rules"][0]["backendRefs"][0].update(port="8000"), "port is '8000'"),
    (lambda o: route(o)["rules"][0]["timeouts"].update(request="forever"), "request is"),
    (lambda o: route(o)["rules"][0]["matches"][0]["path"].update(value="v1"), "path is"),
    (lambda o: set_arg(verifier(o), "--allow-plaintext", "--tls-cert=/models/tls.crt"),
     "plaintext to a port with TLS"),
]


# The same in overlays/example.
EXAMPLE_MISTAKES = [
    (lambda o: find(o, "PodMonitor", "outrider-verifier")["metadata"].update(name="verifier"),
     "OutriderDown"),
    (lambda o: verifier(o)["startupProbe"].update(failureThreshold=360),
     "OutriderNotStarted fires while"),
    (lambda o: find(o, "PodMonitor", "outrider-drafter")["metadata"].update(
        name="outrider-a-verifier"),
     "OutriderDown and the job"),
    (lambda o: find(o, "Certificate", "outrider-verifier")["spec"]["dnsNames"]
     .remove("outrider.outrider.svc.cluster.local"), "cluster.local"),
    (lambda o: verifier(o)["readinessProbe"]["httpGet"].update(path="/metrics"), "/ready"),
    (lambda o: drafter(o)["readinessProbe"]["httpGet"].update(port="grpc"), "/ready"),
    (lambda o: drafter(o).update(readinessProbe={
        "grpc": {"port": 7303, "service": "outrider.v1.Drafting"}}), "speaks no TLS"),
]


ALL_MISTAKES = {"base": MISTAKES, "overlays/gpu": GPU_MISTAKES,
                "overlays/gateway": GATEWAY_MISTAKES, "overlays/example": EXAMPLE_MISTAKES}


def check_mistakes_are_seen(text, mistakes, programs):
    good = list(yaml.safe_load_all(text))
    for index, (spoil, word) in enumerate(mistakes):
        bad = copy.deepcopy(good)
        spoil(bad)
        found = problems(bad, programs)
        assert any(word in problem for problem in found), (index, word, found)


def check_copies(source):
    """The overlays' rules and dashboard are those that promtool and Grafana are tested with."""
    objects = list(yaml.safe_load_all(render(source / "deploy/kustomize/overlays/example")))
    rules = yaml.safe_load((source / "deploy/prometheus/rules.yml").read_text())
    assert find(objects, "PrometheusRule", "outrider")["spec"] == rules, \
        ("components/monitoring/rules.yaml is not deploy/prometheus/rules.yml; its first lines say "
         "how to copy it")
    dashboard = json.loads((source / "deploy/grafana/outrider.json").read_text())
    assert dashboard_of(objects) == dashboard


def check_health(source, binaries):
    """The image's HEALTHCHECK tells a running verifier from a missing one."""
    dockerfile = (source / "deploy/docker/Dockerfile").read_text()
    script = source / "deploy/docker/healthcheck.sh"
    assert 'CMD ["outrider-healthcheck"]' in dockerfile
    assert f"COPY {script.relative_to(source)} /usr/local/bin/outrider-healthcheck" in dockerfile
    for program, port in (("outrider-verifier", "7301"), ("outrider-drafter", "7302")):
        usage = subprocess.run([binaries / program,
                                "--help"], check=True, capture_output=True, text=True).stdout
        assert f"127.0.0.1:{port}" in usage and port in script.read_text(), (program, port)
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        running = processes.start("verifier", [
            binaries / "outrider-verifier", "--model", small_pair(binaries) / "target", "--listen",
            "127.0.0.1:0", "--metrics", "127.0.0.1:0"], await_line=" serving ")
        port = re.search(r"metrics_port=(\d+)", running.line).group(1)
        assert subprocess.run([script, port], check=False).returncode == 0
        assert subprocess.run([script, "1", port], check=False).returncode == 0
        running.terminate()
        running.wait()
        gone = subprocess.run([script, port], check=False, capture_output=True, text=True)
        assert gone.returncode == 1 and port in gone.stderr, gone


def with_dependencies(packages):
    """These and the packages that apt installs for them, as this machine's Debian has it."""
    known, new = set(), set(packages)
    while new:
        known |= new
        depends = subprocess.run(["dpkg-query", "-W", "-f", "${Depends},", *sorted(new)],
                                 capture_output=True, text=True, check=False).stdout
        names = {re.split(r"[ :(|]", part.strip())[0] for part in depends.split(",")}
        new = {name for name in names if name} - known
    return known


def check_image(source, binaries):
    """Every library that a program needs comes from a package that the image names, or that one of
    these needs."""
    dockerfile = (source / "deploy/docker/Dockerfile").read_text()
    runtime = dockerfile.split(" AS runtime")[1].split("FROM ")[0]
    base = {"libc6", "libgcc-s1"}  # of Debian's slim image
    linked = set()
    for program in ("outrider-verifier", "outrider-drafter", "outrider", "outrider-simulate"):
        for line in subprocess.run(["ldd", binaries / program], check=True, capture_output=True,
                                   text=True).stdout.splitlines():
            if match := re.search(r"=> (/\S+)", line):
                linked.add(pathlib.Path(match.group(1)).resolve())
    # One call for all; libraries of somebody's own build have no owner.
    owned = subprocess.run(["dpkg", "-S", *sorted(linked)], capture_output=True, text=True,
                           check=False)
    owners = {line.split(":")[0] for line in owned.stdout.splitlines()}
    assert len(owners) > 5, owned.stderr
    listed = set(re.findall(r"^ +((?:lib\S+ ?)+)", runtime, re.MULTILINE))
    listed = {name for line in listed for name in line.split()}
    there = with_dependencies(listed | base)
    assert owners <= there, f"not in the image: {owners - there}"
    check_cuda_image(dockerfile, binaries)
    # What setup.sh installs for building, less what is for tests and benchmarks alone.
    tests_only = {"libbenchmark-dev", "libglpk-dev", "libgmock-dev", "libgtest-dev"}
    packages = set(re.findall(r"\b[a-z0-9+-]+-dev\b",
                              (source / "scripts/setup.sh").read_text().split("case")[0]))
    packages = {name for name in packages if not name.startswith("golang-")} - tests_only
    missing = packages - set(dockerfile.split(" AS runtime")[0].split())
    assert len(packages) > 8 and not missing, f"the build stage lacks {missing}"
    copied = re.findall(r"^COPY ((?!--)\S+)", dockerfile, re.MULTILINE)
    taken = (source / "deploy/docker/Dockerfile.dockerignore").read_text().splitlines()
    for path in copied:
        assert (source / path).exists(), path
        assert f"!{path}" in taken, f"{path} is not in Dockerfile.dockerignore"
    folders = re.findall(r"^add_subdirectory\((\w+)\)", (source / "CMakeLists.txt").read_text(),
                         re.MULTILINE)
    left_out = set(folders) - set(copied)
    assert len(folders) > 4 and not left_out, f"not in the image's build: {left_out}"


def check_cuda_image(dockerfile, binaries):
    """The backend lies where the programs look for it, with the cuBLAS it was linked with."""
    built = dockerfile.split(" AS build-cuda")[1].split("FROM ")[0]
    copied = dockerfile.split(" AS cuda")[1]
    module = "outrider_cuda_backend.so"
    assert f"/{module} /build/bin/{module}" in built and " /out-cuda/ /usr/local/lib/" in copied
    if not (binaries / module).exists():
        return  # built without nvcc
    needed = subprocess.run(["readelf", "-d", binaries / module], check=True, capture_output=True,
                            text=True).stdout
    (major,) = re.findall(r"libcublasLt\.so\.(\d+)", needed)
    assert f" libcublas-{major}-" in copied, f"the image lacks cuBLAS {major}"
    assert f" libcublas-dev-{major}-" in built and f" cuda-nvcc-{major}-" in built


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    programs = Programs(source, binaries)
    for overlay in OVERLAYS:
        text = render(source / "deploy/kustomize" / overlay)
        decode_typed(text)
        found = problems(list(yaml.safe_load_all(text)), programs)
        assert not found, f"{overlay}:\n" + "\n".join(found)
    for overlay, mistakes in ALL_MISTAKES.items():
        check_mistakes_are_seen(render(source / "deploy/kustomize" / overlay), mistakes, programs)
    check_copies(source)
    check_image(source, binaries)
    check_health(source, binaries)
    print(f"{len(OVERLAYS)} overlays are sound, {sum(map(len, ALL_MISTAKES.values()))} mistakes "
          "are seen")


if __name__ == "__main__":
    main()
