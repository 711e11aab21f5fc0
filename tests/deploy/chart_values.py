"""Values that users may set in the chart, what its objects must then have, and values to refuse."""

import copy
import json
import random

GPU = {
    "limits": {"memory": "8Gi", "nvidia.com/gpu": "1"},
    "requests": {"cpu": "1", "memory": "8Gi"},
}
PEER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateways"}}}
OUTSIDE = {"http.enabled": True, "networkPolicy.gateways": [PEER]}
LOCKED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SIDECAR = {
    "name": "side",
    "image": "registry.example/side",
    "securityContext": LOCKED,
    "resources": {"requests": {"cpu": "1", "memory": "8Mi"}, "limits": {"memory": "8Mi"}},
}
ZONE = "metadata.labels['topology.kubernetes.io/zone']"
FETCH = {**SIDECAR, "name": "fetch", "volumeMounts": [{"name": "models", "mountPath": "/models"}]}


def pod_values(**changes):
    """The same for verifiers and drafters."""
    return {
        f"{component}.{name}": value
        for component in ("verifier", "drafter")
        for name, value in changes.items()
    }


# Changes by path, and what the objects must then have: kinds, or words of the pods' specs. They
# must not have what follows "no ".
OPTIONS = [
    ({}, ["StatefulSet", "Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"]),
    (
        {
            "verifier.replicas": 10000,
            "drafter.replicas": 0,
            "verifier.drainSeconds": 300,
            **pod_values(startupSeconds=1800),
        },
        [
            "10000",
            "--drain-timeout=300",
            '"failureThreshold": 360',
            '"progressDeadlineSeconds": 2100',
        ],
    ),
    ({}, ["--kv-tokens=16384"]),
    ({"verifier.kvTokens": 1024}, ["--kv-tokens=1024"]),
    ({"models.source": "claim", "verifier.kvTokens": 1000000}, ["--kv-tokens=1000000"]),
    ({"http.enabled": True, "http.port": 8080}, ["--http=0.0.0.0:8080"]),
    (
        {"tls.enabled": True, "tls.clusterDomain": "cluster.local"},
        ["Certificate", "Issuer", "/tls/ca.crt"],
    ),
    (
        {"tls.enabled": True, "tls.certManager": False},
        ["pair-verifier-tls", "pair-drafter-tls", "no Certificate"],
    ),
    ({"tls.enabled": True, "tls.verifierSecret": "own"}, ["own", "pair-drafter-tls"]),
    ({"keda.enabled": True}, ["ScaledObject", 'pod=~\\"pair-verifier-[0-9]+\\"']),
    ({"podMonitor.enabled": True, "podMonitor.labels": {"release": "prometheus"}}, ["PodMonitor"]),
    (
        {
            "prometheusRule.enabled": True,
            "prometheusRule.labels": {"release": "prometheus"},
            "podMonitor.enabled": True,  # its jobs are what the alerts must match
        },
        ["PrometheusRule", "PodMonitor", '"for": "900s"'],
    ),
    (
        {"prometheusRule.enabled": True, "verifier.startupSeconds": 3600},
        ['"for": "3900s"', '"for": "900s"'],
    ),
    ({"dashboard.enabled": True, "dashboard.annotations": {"folder": "Outrider"}}, ["ConfigMap"]),
    (
        {
            "models.source": "claim",
            **pod_values(flags=["--device=cuda:0"], resources=GPU, runtimeClassName="nvidia"),
        },
        [
            "outrider-models",
            "nvidia.com/gpu",
            "runtimeClassName",
            "--device=cuda:0",
            "no --kv-tokens",
        ],
    ),
    (
        {
            "models.source": "init",
            "models.init": [FETCH],
            "networkPolicy.extraEgress": [{"to": [PEER]}],
        },
        ["fetch"],
    ),
    (
        pod_values(
            env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            envFrom=[{"secretRef": {"name": "more"}}],
        ),
        ["NODE", "more", "POD_NAME"],
    ),
    (
        pod_values(
            extraVolumes=[{"name": "cache", "emptyDir": {}}],
            extraContainers=[SIDECAR],
            extraVolumeMounts=[{"name": "cache", "mountPath": "/cache"}],
        ),
        ["/cache", "registry.example/side"],
    ),
    (
        pod_values(
            affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            nodeSelector={"pool": "a"},
            tolerations=[{"key": "a", "operator": "Exists"}],
            priorityClassName="high",
            podLabels={"team": "a"},
            podAnnotations={"note": "1"},
        ),
        ["podAntiAffinity", "tolerations", "high", "team"],
    ),
    (
        pod_values(
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                }
            ]
        ),
        ["topology.kubernetes.io/zone", "DoNotSchedule"],
    ),
    (pod_values(zone="europe-west1-b"), ['"--zone=europe-west1-b"']),
    (
        pod_values(
            zone="$(ZONE)",
            env=[{"name": "ZONE", "valueFrom": {"fieldRef": {"fieldPath": ZONE}}}],
        ),
        ['"--zone=$(ZONE)"', ZONE],
    ),
    (
        {
            **OUTSIDE,
            "ingress.enabled": True,
            "ingress.className": "nginx",
            "ingress.tlsSecret": "outside",
        },
        ["Ingress"],
    ),
    (
        {
            **OUTSIDE,
            "httpRoute.enabled": True,
            "httpRoute.parents": [{"name": "public"}],
            "httpRoute.hostnames": ["outrider.example"],
        },
        ["HTTPRoute"],
    ),
    (
        {"verifier.serviceType": "LoadBalancer", "networkPolicy.gateways": [PEER]},
        ["LoadBalancer", "gateways"],
    ),
    (
        {"tokens.clientSecret": "clients", "tokens.drafterSecret": "drafters"},
        [
            "--client-tokens=/tokens/clients/tokens",
            "--drafter-tokens=/tokens/drafters/tokens",
            "--token-file=/tokens/drafters/tokens",
        ],
    ),
    (
        {"traces.volume": {"emptyDir": {"sizeLimit": "1Gi"}}, "traces.sampleRatio": 0.01},
        ["--trace-file=/traces/$(POD_NAME).jsonl", "--trace-sample-ratio=0.01"],
    ),
    ({"traces.volume": {"persistentVolumeClaim": {"claimName": "spans"}}}, ["spans"]),
    (
        {
            "networkPolicy.endpointPickers": [
                {"podSelector": {"matchLabels": {"inferencepool": "a"}}}
            ],
            "networkPolicy.dns": [{"ipBlock": {"cidr": "169.254.20.10/32"}}],
        },
        ["NetworkPolicy"],
    ),
    ({"networkPolicy.enabled": False}, ["no NetworkPolicy"]),
    (
        {"disruption.enabled": False, "vllmMetrics": False},
        ["no PodDisruptionBudget", "no --vllm-metrics"],
    ),
    ({"drafter.enabled": False}, ["no Deployment", "no pair-drafter"]),
    (
        {
            "imagePullSecrets": [{"name": "registry"}],
            "image.repository": "registry.example/outrider",
        },
        ["registry"],
    ),
]

# What the schema or a template refuses, and a word of the reason that Helm gives.
REFUSED = [
    ({"verifier.replica": 3}, "replica"),
    ({"verifier.replicas": "3"}, "replicas"),
    ({"verifier.replicas": 10001}, "replicas"),
    ({"drafter.replicas": -1}, "replicas"),
    ({"drafter.replicas": 1.5}, "replicas"),
    ({"keda.verifier.max": 10001}, "max"),
    ({"keda.drafter.min": 0}, "min"),
    ({"verifier.threads": 0}, "threads"),
    ({"verifier.kvTokens": 0}, "kvTokens"),
    ({"verifier.flags": ["device=cuda:0"]}, "flags"),
    ({"verifier.flags": "--device=cuda:0"}, "flags"),
    ({"verifier.env": {"A": "b"}}, "env"),
    ({"verifier.env": [{"value": "b"}]}, "env"),
    ({"verifier.podLabels": {"a": 1}}, "podLabels"),
    ({"verifier.extraVolumes": [{"emptyDir": {}}]}, "extraVolumes"),
    ({"verifier.extraVolumeMounts": [{"name": "cache"}]}, "extraVolumeMounts"),
    ({"verifier.affinity": []}, "affinity"),
    ({"verifier.topologySpreadConstraints": [{"maxSkew": 1}]}, "topologySpreadConstraints"),
    ({"verifier.runtimeClassName": 1}, "runtimeClassName"),
    ({"traces.volume": "emptyDir"}, "volume"),
    ({"traces.volume": ["emptyDir"]}, "volume"),
    ({"traces.sampleRatio": 1.5}, "sampleRatio"),
    ({"httpRoute.enabled": True, **OUTSIDE}, "parents"),
    ({"httpRoute.enabled": True, **OUTSIDE, "httpRoute.parents": [{}]}, "parents"),
    ({"httpRoute.requestTimeout": "forever"}, "requestTimeout"),
    ({"models.source": "init"}, "init"),
    ({"models.source": "hub"}, "source"),
    ({"disruption.drafterMaxUnavailable": "150%"}, "drafterMaxUnavailable"),
    ({"networkPolicy.dns": []}, "dns"),
    ({"tls.enabled": "yes"}, "enabled"),
    ({"unknown": 1}, "unknown"),
    ({"imagePullSecrets": [{}]}, "imagePullSecrets"),
]
# Refused by a template, because it takes several values to see them.
REFUSED_TOGETHER = [
    ({"ingress.enabled": True}, "set http.enabled"),
    ({"httpRoute.enabled": True, "httpRoute.parents": [{"name": "public"}]}, "set http.enabled"),
    ({"http.enabled": True, "ingress.enabled": True}, "set networkPolicy.gateways"),
    ({**OUTSIDE, "ingress.enabled": True, "tls.enabled": True}, "call in plaintext"),
    (
        {
            **OUTSIDE,
            "httpRoute.enabled": True,
            "httpRoute.parents": [{"name": "public"}],
            "tls.enabled": True,
        },
        "call in plaintext",
    ),
    ({"verifier.serviceType": "LoadBalancer"}, "verifier.serviceType"),
]


def unmet(words, objects):
    """The words of an option that the objects do not fulfil."""
    text = json.dumps(objects)
    return [word for word in words if (word.removeprefix("no ") in text) == word.startswith("no ")]


def changes_as_values(changes):
    """A values file with nothing but the changes."""
    values = {}
    for path, value in changes.items():
        *folders, name = path.split(".")
        inner = values
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[name] = value
    return values


def with_values(values, changes):
    """All values, with the changes."""
    values = copy.deepcopy(values)
    for path, value in changes.items():
        *folders, name = path.split(".")
        inner = values
        for folder in folders:
            inner = inner[folder]
        inner[name] = value
    return values


def overlaid(values, own):
    """All values, with those of a user's file, as Helm merges them."""
    both = {
        name: overlaid(values[name], value)
        if isinstance(value, dict) and isinstance(values.get(name), dict)
        else value
        for name, value in own.items()
    }
    return {**values, **both}


def combinations(count, seed):
    """Sets of options, always the same: where two set one value, the later one counts."""
    draw = random.Random(seed)
    for _ in range(count):
        merged = {}
        for changes, _ in draw.sample(OPTIONS, draw.randint(3, len(OPTIONS) - 2)):
            merged.update(changes)
        if merged.get("models.source") != "init":
            merged.pop("models.init", None)
        if merged.get("ingress.enabled") or merged.get("httpRoute.enabled"):
            merged.pop("tls.enabled", None)
        yield merged
