"""An API server of Kubernetes for tests: it stores what kubectl and helm send, and runs nothing.

Objects must follow the schema of their kind, and pods and pod templates the Pod Security level
`restricted`. A real server refuses only pods and warns of templates; here both are refused, because
nothing makes pods of templates. Discovery, OpenAPI and storage are as small as the clients allow.
"""

import http.server
import json
import re
import threading
import urllib.parse

import pod_security
from kubernetes_tools import schema_errors

# Group/version, and its kinds: kind, plural, namespaced.
KINDS = {
    "v1": [
        ("Namespace", "namespaces", False),
        ("Pod", "pods", True),
        ("Service", "services", True),
        ("Secret", "secrets", True),
        ("ConfigMap", "configmaps", True),
    ],
    "apps/v1": [("StatefulSet", "statefulsets", True), ("Deployment", "deployments", True)],
    "policy/v1": [("PodDisruptionBudget", "poddisruptionbudgets", True)],
    "networking.k8s.io/v1": [
        ("NetworkPolicy", "networkpolicies", True),
        ("Ingress", "ingresses", True),
    ],
    "cert-manager.io/v1": [("Certificate", "certificates", True), ("Issuer", "issuers", True)],
    "monitoring.coreos.com/v1": [
        ("PodMonitor", "podmonitors", True),
        ("PrometheusRule", "prometheusrules", True),
    ],
    "keda.sh/v1alpha1": [("ScaledObject", "scaledobjects", True)],
    "gateway.networking.k8s.io/v1": [("HTTPRoute", "httproutes", True)],
}
PATH = re.compile(
    r"/(?:api|apis)/(?P<version>(?:[a-z0-9.-]+/)?v\d+[a-z0-9]*)(?:/namespaces/(?P<namespace>[^/]+)"
    r"(?=/))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?$"
)


def root_of(version):
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def discovery(path):
    """The answer to a path of discovery; None for others."""
    if path == "/version":
        return {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [v.split("/") for v in KINDS if "/" in v]
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [
                {
                    "name": group,
                    "versions": [{"groupVersion": f"{group}/{v}", "version": v}],
                    "preferredVersion": {"groupVersion": f"{group}/{v}", "version": v},
                }
                for group, v in groups
            ],
        }
    if path == "/openapi/v3":
        return {
            "paths": {
                root_of(v)[1:]: {"serverRelativeURL": f"/openapi/v3{root_of(v)}"} for v in KINDS
            }
        }
    for version, kinds in KINDS.items():
        if path == root_of(version):
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": version,
                "resources": [
                    {
                        "name": plural,
                        "singularName": kind.lower(),
                        "namespaced": namespaced,
                        "kind": kind,
                        "verbs": ["create", "get", "list", "patch", "update", "delete", "watch"],
                    }
                    for kind, plural, namespaced in kinds
                ],
            }
        if path == f"/openapi/v3{root_of(version)}":
            return openapi(version, kinds)
    return None


def openapi(version, kinds):
    """Says of every kind that the server itself checks fields."""
    group, _, number = version.rpartition("/")
    return {
        "openapi": "3.0.0",
        "info": {"title": "stub", "version": "v1"},
        "paths": {
            f"{root_of(version)}/{plural}/{{name}}": {
                "patch": {
                    "x-kubernetes-group-version-kind": {
                        "group": group,
                        "version": number,
                        "kind": kind,
                    },
                    "parameters": [
                        {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
                    ],
                }
            }
            for kind, plural, _ in kinds
        },
    }


def refusal(o):
    """Why the server refuses an object; empty if it does not."""
    found = schema_errors([o])
    spec = o["spec"] if o["kind"] == "Pod" else o.get("spec", {}).get("template", {}).get("spec")
    if spec:
        found += [
            f'violates PodSecurity "restricted:latest": {what}'
            for what in pod_security.violations(spec)
        ]
    return "; ".join(found)


def merged(value, patch):
    if not isinstance(value, dict) or not isinstance(patch, dict):
        return patch
    names = [*value, *(name for name in patch if name not in value)]
    both = {
        name: merged(value.get(name), patch[name]) if name in patch else value[name]
        for name in names
    }
    return {name: inner for name, inner in both.items() if inner is not None}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fail(self, code, reason, message):
        self.answer(
            code,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": reason,
                "code": code,
                "message": message,
            },
        )

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        if (found := discovery(url.path)) is not None:
            return self.answer(200, found)
        if (place := PATH.match(url.path)) is None:
            return self.fail(404, "NotFound", f"no path {url.path}")
        if place["name"] is None:
            return self.answer(
                200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}
            )
        stored = self.server.stored.get(self.key(place, place["name"]))
        if stored is None:
            return self.fail(404, "NotFound", f'{place["plural"]} "{place["name"]}" not found')
        return self.answer(200, stored)

    def do_POST(self):
        place = PATH.match(urllib.parse.urlparse(self.path).path)
        return self.store(place, self.body(), 201)

    def do_PUT(self):
        place = PATH.match(urllib.parse.urlparse(self.path).path)
        return self.store(place, self.body(), 200)

    def do_PATCH(self):
        """Every patch is taken for a merge patch, which is enough for maps."""
        place = PATH.match(urllib.parse.urlparse(self.path).path)
        stored = self.server.stored.get(self.key(place, place["name"]))
        if stored is None:
            return self.fail(404, "NotFound", f'{place["plural"]} "{place["name"]}" not found')
        return self.store(place, merged(stored, self.body()), 200)

    def do_DELETE(self):
        place = PATH.match(urllib.parse.urlparse(self.path).path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.stored.pop(self.key(place, place["name"]), None) is None:
            return self.fail(404, "NotFound", f'{place["plural"]} "{place["name"]}" not found')
        return self.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def body(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if not data.startswith(b"k8s\0"):
            return json.loads(data)
        # Helm keeps its releases in secrets that it sends as protocol buffers; their names will do.
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": re.search(rb"sh\.helm\.release\.[a-z0-9.-]+", data).group().decode()
            },
        }

    def key(self, place, name):
        return place["version"], place["namespace"], place["plural"], name

    def store(self, place, o, code):
        o.setdefault("apiVersion", place["version"])
        o.setdefault(
            "kind", next(k for k, plural, _ in KINDS[place["version"]] if plural == place["plural"])
        )
        if why := refusal(o):
            return self.fail(
                403, "Forbidden", f"{o['kind']} {o['metadata']['name']} is forbidden: {why}"
            )
        o["metadata"].setdefault("uid", f"uid-{len(self.server.stored)}")
        o["metadata"].setdefault("resourceVersion", "1")
        self.server.stored[self.key(place, o["metadata"]["name"])] = o
        return self.answer(code, o)


class StubCluster:
    """Serves at `url` while it is entered; `objects` are those that it took."""

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.stored = {}
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def objects(self, kind):
        return [o for o in self.server.stored.values() if o["kind"] == kind]

    def kubeconfig(self):
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "stub",
            "clusters": [{"name": "stub", "cluster": {"server": self.url}}],
            "users": [{"name": "stub"}],
            "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
        }
