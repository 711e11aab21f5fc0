#!/usr/bin/env python3
"""The Helm chart's templates against its values, its schema and the programs.

Every value that the templates use must be in values.yaml, every value must be used and be in the schema.
Then they are rendered, with the values as they are and with others (render_chart.go, where there is Go with
sprig), and the objects must hold together as those of the overlays must (manifests.py).

  chart_test.py SOURCE_DIR BINARY_DIR
"""

import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from processes import SKIPPED

try:
    import yaml

    from manifests import Programs, problems
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(SKIPPED)

# Passed on to Kubernetes as they are.
OPEN = {"requests", "limits", "nodeSelector", "podAnnotations", "labels"}


def paths(values, prefix=""):
    """Every leaf of values.yaml as a.b.c; what goes on to Kubernetes is a leaf."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in {"resources"} | OPEN:
            yield from paths(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def schema_paths(schema, prefix=""):
    for name, inner in schema["properties"].items():
        if "properties" in inner and name != "resources":
            assert inner["additionalProperties"] is False, prefix + name
            yield from schema_paths(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def check_type(path, value, schema):
    """The few words of JSON Schema that ours uses."""
    if "oneOf" in schema:
        assert any(fits(value, inner) for inner in schema["oneOf"]), (path, value)
    else:
        assert fits(value, schema), (path, value, schema)


def fits(value, schema):
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    if not isinstance(value, kinds[schema["type"]]) or (schema["type"] == "integer" and value is True):
        return False
    if schema["type"] == "string":
        return len(value) >= schema.get("minLength", 0) and bool(re.search(schema.get("pattern", ""), value))
    if schema["type"] == "integer":
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return True


def at(tree, path, key=None):
    for name in path.split("."):
        tree = tree[key][name] if key else tree[name]
    return tree


# What somebody may set, by path, and what must then be among the objects.
GPU = {"limits": {"memory": "8Gi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "memory": "8Gi"}}
VARIANTS = [
    ({}, ["StatefulSet", "Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"]),
    ({"verifier.replicas": 3, "verifier.drainSeconds": 300}, ["StatefulSet"]),
    ({"http.enabled": True, "http.port": 8080}, ["StatefulSet"]),
    ({"tls.enabled": True, "http.enabled": True}, ["Certificate", "Issuer"]),
    ({"tls.enabled": True, "tls.certManager": False}, ["StatefulSet"]),
    ({"keda.enabled": True, "podMonitor.enabled": True}, ["ScaledObject", "PodMonitor"]),
    ({"models.source": "claim", "verifier.flags": ["--device=cuda:0"], "verifier.resources": GPU}, ["StatefulSet"]),
    ({"drafter.enabled": False, "networkPolicy.enabled": False, "disruption.enabled": False}, ["StatefulSet"]),
]
# What must be seen if it is set.
MISTAKES = [
    ({"verifier.flags": ["--drain-timout=9"]}, "no flag"),
    ({"verifier.flags": ["--device=cuda:0"]}, "GPU"),
    ({"verifier.flags": ["--drain-timeout=300"]}, "grace"),
    ({"verifier.resources": {}}, "resources"),
]
SPRIG = "/usr/share/gocode/src/github.com/Masterminds/sprig"


def with_values(values, changes):
    values = copy.deepcopy(values)
    for path, value in changes.items():
        *folders, name = path.split(".")
        at(values, ".".join(folders))[name] = value
    return values


class Renderer:
    def __init__(self, source, binaries):
        self.program = binaries / "render_chart"
        self.templates = source / "deploy/helm/outrider/templates"
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode",
                       "GOFLAGS": "", "GOCACHE": str(binaries.resolve().parent / "go-cache")}
        subprocess.run(["go", "build", "-o", self.program, source / "tests/deploy/render_chart.go"], check=True,
                       env=environment)

    def objects(self, values):
        context = {"Values": values, "Release": {"Name": "pair", "Namespace": "outrider", "Service": "Helm"},
                   "Chart": {"Name": "outrider"}}
        text = subprocess.run([self.program, self.templates], input=json.dumps(context), check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return [o for o in yaml.safe_load_all(text) if o]


def check_rendered(renderer, values, programs):
    for changes, kinds in VARIANTS:
        objects = renderer.objects(with_values(values, changes))
        found = problems(objects, programs)
        assert not found, f"{changes}:\n" + "\n".join(found)
        missing = set(kinds) - {o["kind"] for o in objects}
        assert not missing, f"{changes}: no {missing}"
    for changes, word in MISTAKES:
        found = problems(renderer.objects(with_values(values, changes)), programs)
        assert any(word in problem for problem in found), (changes, word, found)


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    chart = source / "deploy/helm/outrider"
    values = yaml.safe_load((chart / "values.yaml").read_text())
    schema = json.loads((chart / "values.schema.json").read_text())
    templates = {path.name: path.read_text() for path in sorted((chart / "templates").iterdir())}
    everything = "\n".join(templates.values())
    programs = Programs(source, binaries)

    leaves = set(paths(values))
    used = set(re.findall(r"\.Values\.([A-Za-z.]+[A-Za-z])", everything))
    known = leaves | {leaf.rsplit(".", 1)[0] for leaf in leaves}
    assert used <= known, f"not in values.yaml: {used - known}"
    unused = {leaf for leaf in leaves
              if not any(leaf == path or leaf.startswith(path + ".") for path in used)}
    assert not unused, f"values that no template uses: {unused}"
    assert set(schema_paths(schema)) - {"global"} == leaves, set(schema_paths(schema)) ^ leaves
    for leaf in leaves:
        check_type(leaf, at(values, leaf), at(schema, leaf, "properties"))
    if shutil.which("go") is None or not pathlib.Path(SPRIG).exists():
        print("not rendered: golang-go or golang-github-masterminds-sprig-dev is not installed")
        sys.exit(SKIPPED)
    check_rendered(Renderer(source, binaries), values, programs)
    print(f"{len(leaves)} values, {len(templates)} templates, {len(VARIANTS)} renderings are sound, "
          f"{len(MISTAKES)} mistakes are seen")


if __name__ == "__main__":
    main()
