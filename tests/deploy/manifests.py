"""What must hold between the objects of a rendered overlay, and between them and the programs."""

import fnmatch
import json
import re
import subprocess

import http_route
import pod_security

OVERLAYS = ("base", "overlays/cpu-demo", "overlays/gpu", "overlays/mtls", "overlays/gateway",
            "overlays/example")
NAME = "app.kubernetes.io/name"
# Flags whose value is a file's or a folder's path.
FILES = ("--model", "--tls-cert", "--tls-key", "--tls-ca", "--client-tokens", "--drafter-tokens",
         "--token-file", "--trace-file")
IMAGE_MODELS = "/usr/share/outrider/models/"
# What clients' requests may take: docs/faults.md, Memory.
INPUT_BYTES = 2 << 30


class Programs:
    """What the programs say of themselves."""

    def __init__(self, source, binaries):
        self.flags = {}
        for program, arguments in {
            "outrider-verifier": ["--help"],
            "outrider-drafter": ["--help"],
        }.items():
            text = subprocess.run([binaries / program, *arguments], check=True, capture_output=True,
                                  text=True).stdout
            self.flags[program] = set(re.findall(r"--[a-z][a-z0-9-]*", text))
        # The names by which each answers grpc.health.v1; "" says that it is alive.
        self.health = {
            program: {"", *(f"outrider.v1.{name}" for name in re.findall(
                r"\bk(Generation|Drafting)Service\b", (source / path).read_text()))}
            for program, path in {"outrider-verifier": "verifier/serve.cc",
                                  "outrider-drafter": "drafter/observers.cc"}.items()
        }
        self.health["outrider-verifier"].discard("outrider.v1.Drafting")  # is for drafters
        self.metrics = set(re.findall(r"`(outrider_\w+)", (source / "docs/metrics.md").read_text()))
        (most,) = re.findall(r"int max_running = (\d+);",
                             (source / "verifier/engine/admission.h").read_text())
        self.max_sessions = int(most)  # without the flag
        self.models = {name: Model(source / "models/default" / name)
                       for name in ("target", "drafter")}


class Model:
    """What a model of the image takes on a CPU, in bytes."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        self.weights = (folder / "model.safetensors").stat().st_size
        self.token_values = (2 * config["num_hidden_layers"] * config["num_key_value_heads"]
                             * config["head_dim"])
        # As common/service/served_model.cc chooses without --kv-tokens.
        self.default_tokens = min(262144, 64 * config["max_position_embeddings"])

    def kv_cache(self, values):
        """With a program's flags."""
        width = {"": 4, "auto": 4, "f32": 4, "bf16": 2, "fp8": 1}[flag(values, "--kv-cache-dtype")]
        tokens = int(flag(values, "--kv-tokens") or 0) or self.default_tokens
        return tokens * self.token_values * width


def flag_values(container):
    """--flag=value of a container, value "" for a bare flag."""
    return dict((arg + "=").split("=", 1) for arg in container.get("args", []))


def flag(values, name):
    return values.get(name, "").rstrip("=")


def bytes_of(quantity):
    """Of Kubernetes' quantities those that manifests of ours use."""
    number, unit = re.fullmatch(r"(\d+)([KMG]i)?", str(quantity)).groups()
    return int(number) * {None: 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[unit]


def port_of(address):
    return int(address.rsplit(":", 1)[1]) if address else None


def problems(objects, programs):
    return Checker(objects, programs).run()


class Checker:
    def __init__(self, objects, programs):
        self.objects = objects
        self.programs = programs
        self.found = []
        self.workloads = self.of("StatefulSet", "Deployment")
        self.pods = [w["spec"]["template"] for w in self.workloads]

    def run(self):
        for workload in self.workloads:
            self.check_workload(workload)
        for kind, check in {
            "Service": self.check_service,
            "PodDisruptionBudget": self.check_selector,
            "PodMonitor": self.check_monitor,
            "NetworkPolicy": self.check_policy,
            "ScaledObject": self.check_scaling,
            "Ingress": self.check_ingress,
            "HTTPRoute": self.check_route,
            "PrometheusRule": self.check_rules,
        }.items():
            for o in self.of(kind):
                check(o)
        self.check_dialled()
        self.check_certificates()
        return self.found

    def of(self, *kinds):
        return [o for o in self.objects if o["kind"] in kinds]

    def complain(self, o, words):
        self.found.append(f"{o['kind']} {o['metadata']['name']}: {words}")

    def selected(self, labels):
        return [p for p in self.pods if labels.items() <= p["metadata"]["labels"].items()]

    # Workloads.

    def check_workload(self, workload):
        spec = workload["spec"]["template"]["spec"]
        if workload["spec"]["template"] not in self.selected(
            workload["spec"]["selector"]["matchLabels"]):
            self.complain(workload, "its selector does not match its own pods")
        for violation in pod_security.violations(spec):
            self.complain(workload, f"refused by the level restricted: {violation}")
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        for container in spec.get("initContainers", []) + spec["containers"]:
            self.check_rights(workload, container)
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    self.complain(workload, f"no volume {mount['name']}")
        for container in self.programs_of(spec):
            self.check_flags(workload, container)
            self.check_files(workload, container)
            self.check_device(workload, container)
            self.check_memory(workload, container)
            self.check_ports(workload, container)
            self.check_probes(workload, container)
            self.check_grace(workload, container)
        if workload["kind"] == "Deployment":
            self.check_rollout(workload)
        for constraint in spec.get("topologySpreadConstraints", []):
            if not self.selected(constraint["labelSelector"]["matchLabels"]):
                self.complain(workload, "its spread constraint selects nothing")

    def programs_of(self, spec):
        """The containers that run our programs; others are users' sidecars."""
        return [container for container in spec["containers"]
                if container.get("command", [""])[0] in self.programs.flags]

    def check_rights(self, workload, container):
        """More than the level `restricted` asks for."""
        if not container.get("securityContext", {}).get("readOnlyRootFilesystem"):
            self.complain(workload, f"{container['name']}: the root file system is open")
        resources = container.get("resources", {})
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys():
            self.complain(workload, f"{container['name']}: no resources requested")
        if "memory" not in resources.get("limits", {}):
            self.complain(workload, f"{container['name']}: resources without a limit of memory")

    def check_flags(self, workload, container):
        program = container["command"][0]
        values = flag_values(container)
        for name in values:
            if name not in self.programs.flags[program]:
                self.complain(workload, f"{program} has no flag {name}")
        if len(values) < len(container.get("args", [])):
            self.complain(workload, f"{program}: a flag is given twice")
        tls = "--tls-cert" in values
        if tls == ("--allow-plaintext" in values):
            self.complain(workload,
                          "either certificates or --allow-plaintext: plaintext must be asked for")

    def check_files(self, workload, container):
        """Files of flags are on volumes, traces on one that can be written; variables in flags are
        set."""
        values = flag_values(container)
        mounts = {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}
        for name in FILES:
            path = flag(values, name)
            found = [mount for start, mount in mounts.items() if path.startswith(start + "/")]
            if path and not found:
                self.complain(workload, f"{name}: {path} is on no mounted volume")
            if name == "--trace-file" and any(mount.get("readOnly") for mount in found):
                self.complain(workload, f"{name}: {path} cannot be written")
        variables = {variable["name"] for variable in container.get("env", [])}
        for name in re.findall(r"\$\((\w+)\)", " ".join(container.get("args", []))):
            if name not in variables and not container.get("envFrom"):
                self.complain(workload, f"no variable {name}")

    def check_device(self, workload, container):
        """Who is given GPUs computes on them, and nobody else can."""
        gpus = int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        values = flag_values(container)
        devices = flag(values, "--devices").split(",") if flag(values, "--devices") else []
        used = len(devices) or int(flag(values, "--device").startswith("cuda:"))
        if gpus != used:
            self.complain(workload,
                          f"{container['name']}: {gpus} GPUs, but --device and --devices use "
                          f"{used}")

    def check_memory(self, workload, container):
        """Requests hold weights and KV cache of the image's models. A verifier's limit has room for
        what clients send, too."""
        name = self.image_model(workload)
        if name is None or flag(flag_values(container), "--device").startswith("cuda:"):
            return
        model = self.programs.models[name]
        needed = model.weights + model.kv_cache(flag_values(container))
        resources = container.get("resources", {})
        inputs = INPUT_BYTES if container["command"][0] == "outrider-verifier" else 0
        for kind, least in (("requests", needed), ("limits", needed + inputs)):
            has = resources.get(kind, {}).get("memory")
            if has is not None and bytes_of(has) < least:
                self.complain(workload,
                              f"memory: {kind} have {has}, weights, KV cache and inputs may take "
                              f"{least >> 20}Mi")

    def image_model(self, workload):
        """Which of the image's models an init container copies."""
        for container in workload["spec"]["template"]["spec"].get("initContainers", []):
            for word in container.get("command", []):
                if word.startswith(IMAGE_MODELS):
                    return word.removeprefix(IMAGE_MODELS)
        return None

    def check_ports(self, workload, container):
        values = flag_values(container)
        bound = {port_of(flag(values, name))
                 for name in ("--listen", "--metrics", "--http")} - {None}
        open_ports = {port["containerPort"] for port in container.get("ports", [])}
        if bound != open_ports:
            self.complain(workload,
                          f"flags bind the ports {bound}, the container names {open_ports}")

    def check_probes(self, workload, container):
        program, values = container["command"][0], flag_values(container)
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind)
            if probe is None or len({"grpc", "httpGet"} & probe.keys()) != 1:
                self.complain(workload, f"{kind}: not one way to probe")
                continue
            if grpc := probe.get("grpc"):
                if kind != "readinessProbe":
                    self.complain(workload, f"{kind}: clients may fill the port's connections")
                if grpc["port"] != port_of(flag(values, "--listen")):
                    self.complain(workload, f"{kind}: not the port of --listen")
                if "--tls-cert" in values:
                    self.complain(workload, f"{kind}: the kubelet's gRPC probe speaks no TLS")
                if grpc.get("service", "") not in self.programs.health[program]:
                    self.complain(workload,
                                  f"{kind}: {program} has no service {grpc.get('service')}")
            if http := probe.get("httpGet"):
                path = "/ready" if kind == "readinessProbe" else "/metrics"
                if (http["port"], http["path"]) != ("metrics", path):
                    self.complain(workload, f"{kind}: is answered at {path} of the metrics port")

    def check_rollout(self, workload):
        """New pods fit on the nodes of old ones, and have the time that they may take to load."""
        rolling = workload["spec"].get("strategy", {}).get("rollingUpdate", {})
        if rolling != {"maxSurge": 0, "maxUnavailable": 1}:
            self.complain(workload, f"rolls over by {rolling}: a new pod may find no free GPU")
        for container in self.programs_of(workload["spec"]["template"]["spec"]):
            probe = container["startupProbe"]
            longest = probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3)
            if workload["spec"].get("progressDeadlineSeconds", 600) <= longest:
                self.complain(workload, f"its rollout fails while a pod loads for {longest} s")

    def check_grace(self, workload, container):
        """The pod may live for preStop and the drain, and some seconds more."""
        stop = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get(
            "command", ["sleep", "0"])
        drain = float(flag(flag_values(container), "--drain-timeout") or 0)
        grace = workload["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        if grace < float(stop[1]) + drain + 5:
            self.complain(workload, f"a grace of {grace} s is short for {stop[1]} and {drain} s")

    # What selects pods.

    def check_selector(self, o, labels=None):
        labels = o["spec"]["selector"]["matchLabels"] if labels is None else labels
        pods = self.selected(labels)
        if not pods:
            self.complain(o, f"selects nothing: {labels}")
        return pods

    def check_port(self, o, pods, port):
        for pod in pods:
            ports = [port for container in pod["spec"]["containers"]
                     for port in container.get("ports", [])]
            if not any(port in (p["name"], p["containerPort"]) for p in ports):
                self.complain(o, f"its pods have no port {port}")

    def check_service(self, o):
        pods = self.check_selector(o, o["spec"]["selector"])
        for port in o["spec"]["ports"]:
            self.check_port(o, pods, port["targetPort"])

    def check_monitor(self, o):
        pods = self.check_selector(o)
        for endpoint in o["spec"]["podMetricsEndpoints"]:
            self.check_port(o, pods, endpoint["port"])

    def check_policy(self, o):
        pods = self.check_selector(o, o["spec"]["podSelector"]["matchLabels"])
        for rule in o["spec"].get("ingress", []):
            self.check_peers(o, rule["from"])
            for port in rule["ports"]:
                self.check_port(o, pods, port["port"])
        for rule in o["spec"].get("egress", []):
            targets = self.check_peers(o, rule.get("to", []))
            for port in rule.get("ports", []):
                self.check_port(o, targets, port["port"])

    def check_peers(self, o, peers):
        """Those that are ours must exist; others are somebody else's."""
        ours = [peer["podSelector"]["matchLabels"] for peer in peers
                if NAME in peer.get("podSelector", {}).get("matchLabels", {})]
        return [pod for labels in ours for pod in self.check_selector(o, labels)]

    def check_scaling(self, o):
        target = o["spec"]["scaleTargetRef"]
        workload = self.workload(target["kind"], target["name"])
        if workload is None:
            self.complain(o, "scales nothing")
        elif "replicas" in workload["spec"]:
            self.complain(o, "an apply would set the number of replicas back")
        if o["spec"]["minReplicaCount"] < 1:
            self.complain(o, "without pods nothing is measured that would start one")
        triggers = [trigger["metadata"] for trigger in o["spec"]["triggers"]]
        queries = {trigger["query"]: trigger["threshold"] for trigger in triggers}
        for query in queries:
            for metric in re.findall(r"outrider_\w+", query):
                if re.sub(r"_(sum|count|bucket)$", "", metric) not in self.programs.metrics:
                    self.complain(o, f"no metric {metric}")
            if not re.search(rf'pod=~"{target["name"]}-\[', query):
                self.complain(o, "its query counts the pods of other releases")
        if target["kind"] == "StatefulSet" and workload is not None:
            self.check_busy_scaling(o, workload, queries)

    def check_busy_scaling(self, o, workload, queries):
        """Busy verifiers with empty queues stay, and full ones get company."""
        (container,) = self.programs_of(workload["spec"]["template"]["spec"])
        most = int(flag(flag_values(container), "--max-sessions") or self.programs.max_sessions)
        running = [int(threshold) for query, threshold in queries.items()
                   if "outrider_num_requests_running" in query]
        if not running or not 0.5 * most <= running[0] < most:
            self.complain(o, f"running requests: {running}, with --max-sessions {most}")

    def workload(self, kind, name):
        return next((w for w in self.workloads
                     if (w["kind"], w["metadata"]["name"]) == (kind, name)), None)

    # Who dials whom.

    def check_dialled(self):
        """Drafters dial whatever the headless service stands for, and may reach it."""
        (verifiers,) = [w for w in self.workloads if w["kind"] == "StatefulSet"]
        (container,) = self.programs_of(verifiers["spec"]["template"]["spec"])
        port = port_of(flag(flag_values(container), "--listen"))
        service = verifiers["spec"]["serviceName"]
        headless = [o for o in self.of("Service")
                    if o["metadata"]["name"] == service and o["spec"].get("clusterIP") == "None"]
        if not headless:
            self.complain(verifiers, f"no headless service {service}")
        # One that is not ready, or ends, has to leave the name: drafters go by it.
        if any(o["spec"].get("publishNotReadyAddresses") for o in headless):
            self.complain(verifiers, f"{service} names verifiers that are not ready")
        for drafters in (w for w in self.workloads if w["kind"] == "Deployment"):
            (container,) = self.programs_of(drafters["spec"]["template"]["spec"])
            dials = flag(flag_values(container), "--verifier")
            if dials != f"dns:///{service}:{port}":
                self.complain(drafters, f"dials {dials}, not dns:///{service}:{port}")
            labels = drafters["spec"]["template"]["metadata"]["labels"].items()
            for policy in self.of("NetworkPolicy"):
                if not policy["spec"]["podSelector"]["matchLabels"].items() <= labels:
                    continue
                if not any(p["port"] == port for rule in policy["spec"]["egress"]
                           for p in rule.get("ports", [])):
                    self.complain(policy, f"drafters may not dial port {port}")

    def check_certificates(self):
        """Secrets come from certificates with the names that are dialled and let in."""
        certificates = {c["spec"]["secretName"]: c["spec"] for c in self.of("Certificate")}
        if not certificates:
            return
        issuers = {o["metadata"]["name"] for o in self.of("Issuer")}
        for certificate in self.of("Certificate"):
            if certificate["spec"]["issuerRef"]["name"] not in issuers:
                self.complain(certificate, "nobody issues it")
        used = {}
        for workload in self.workloads:
            for volume in workload["spec"]["template"]["spec"]["volumes"]:
                if volume["name"] == "tls":
                    secret = volume["secret"]["secretName"]
                    used[workload["kind"]] = certificates.get(secret)
                    if secret not in certificates:
                        self.complain(workload, f"no certificate for the secret {secret}")
        self.check_service_names(used["StatefulSet"]["dnsNames"])
        for workload in self.workloads:
            (container,) = self.programs_of(workload["spec"]["template"]["spec"])
            values = flag_values(container)
            for name in filter(None, flag(values, "--drafter-names").split(",")):
                if "Deployment" in used and name not in used["Deployment"]["dnsNames"]:
                    self.complain(workload, f"no drafter is called {name}")
            for address in filter(None, flag(values, "--verifier").split(",")):
                host = address.removeprefix("dns:///").rsplit(":", 1)[0]
                if not any(fnmatch.fnmatch(host, name) for name in used["StatefulSet"]["dnsNames"]):
                    self.complain(workload, f"the verifier's certificate does not cover {host}")

    def check_service_names(self, names):
        """A client in any namespace may write a service's name in any of the ways that DNS
        knows."""
        for service in self.of("Service"):
            for suffix in (".svc", ".svc.cluster.local"):
                if not any(
                    re.fullmatch(rf"{service['metadata']['name']}\.[\w-]+{re.escape(suffix)}", name)
                           for name in names):
                    self.complain(service, f"the certificate has no name that ends in {suffix}")

    # Ways in from outside.

    def check_backend(self, o, name, port):
        services = [s for s in self.of("Service") if s["metadata"]["name"] == name]
        if not any(port in (p["name"], p["port"]) for s in services for p in s["spec"]["ports"]):
            self.complain(o, f"no service {name} with the port {port}")
        pods = [pod for s in services for pod in self.selected(s["spec"]["selector"])]
        for pod in pods:
            if any("--tls-cert" in flag_values(c) for c in self.programs_of(pod["spec"])):
                self.complain(o, "sends plaintext to a port with TLS")
        for policy in self.of("NetworkPolicy"):
            first = policy["spec"]["ingress"][0]
            others = [peer for peer in first["from"]
                      if not ({NAME, "outrider-client"}
                               & peer.get("podSelector", {}).get("matchLabels", {}).keys())]
            if any(p["port"] == "http" for p in first["ports"]) and not others:
                self.complain(o, "the network policy admits no gateway")

    def check_ingress(self, o):
        for rule in o["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                service = path["backend"]["service"]
                self.check_backend(o, service["name"], service["port"]["name"])

    def check_route(self, o):
        for violation in http_route.violations(o):
            self.complain(o, f"refused by the Gateway API: {violation}")
        for rule in o["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                self.check_backend(o, backend["name"], backend["port"])

    # What watches.

    def check_rules(self, o):
        """An alert about verifiers watches exactly the job that their PodMonitor makes, and
        likewise drafters'."""
        rules = {rule["alert"]: rule for group in o["spec"]["groups"]
                 for rule in group["rules"] if "alert" in rule}
        for alert, component, severity in (("OutriderDown", "verifier", "critical"),
                                           ("OutriderNotStarted", "verifier", "critical"),
                                           ("OutriderNoVerifier", "verifier", "critical"),
                                           ("OutriderDrafterDown", "drafter", "warning"),
                                           ("OutriderDrafterNotStarted", "drafter", "warning")):
            (jobs,) = set(re.findall(r'job=~"([^"]*)"', rules[alert]["expr"]))
            if rules[alert]["labels"]["severity"] != severity:
                self.complain(o, f"{alert} is not {severity}")
            for monitor in self.of("PodMonitor"):
                namespace = monitor["metadata"].get("namespace", "llm")
                job = f"{namespace}/{monitor['metadata']['name']}"
                labels = monitor["spec"]["selector"]["matchLabels"]
                its_own = labels["app.kubernetes.io/component"] == component
                if bool(re.fullmatch(jobs, job)) != its_own:
                    self.complain(o, f"{alert} and the job {job}")
            if alert.endswith("NotStarted"):
                self.check_patience(o, rules[alert], component)

    def check_patience(self, o, rule, component):
        """No alert while the startup probe waits."""
        for workload in self.workloads:
            labels = workload["spec"]["template"]["metadata"]["labels"]
            if labels["app.kubernetes.io/component"] != component:
                continue
            (container,) = self.programs_of(workload["spec"]["template"]["spec"])
            probe = container["startupProbe"]
            if int(rule["for"].rstrip("s")) <= probe["periodSeconds"] * probe["failureThreshold"]:
                self.complain(o, f"{rule['alert']} fires while a {component} loads")


def dashboard_of(objects):
    """The dashboard that Grafana's sidecar finds among the objects; None without one."""
    found = [o for o in objects if o["kind"] == "ConfigMap"
             and "grafana_dashboard" in o["metadata"].get("labels", {})]
    return json.loads(found[0]["data"]["outrider.json"]) if found else None
