#!/usr/bin/env python3
"""The Helm chart's templates against its values, its schema and the programs, without Helm.

Every value that the templates use must be in values.yaml, every value must be used and be in the
schema. Then they are rendered, option by option and several together (render_chart.go, where there
is Go with sprig), and the objects must hold together as those of the overlays must (manifests.py).
helm_test.py does this with Helm.

  chart_test.py SOURCE_DIR BINARY_DIR
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from processes import SKIPPED

from chart_values import (OPTIONS, REFUSED, REFUSED_TOGETHER, changes_as_values, combinations,
                          overlaid, unmet, with_values)

try:
    import jsonschema
    import yaml

    from manifests import Programs, problems
except ImportError:
    print("skipped: python3-yaml or python3-jsonschema is not installed")
    sys.exit(SKIPPED)

COMBINATIONS = 24

# Passed on to Kubernetes as they are.
OPEN = {"labels"}


def paths(values, prefix=""):
    """Every leaf of values.yaml as a.b.c; what goes on to Kubernetes is a leaf."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in {"resources"} | OPEN:
            yield from paths(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def resolved(schema, inner):
    return schema["definitions"][inner["$ref"].rsplit("/", 1)[1]] if "$ref" in inner else inner


def schema_paths(schema, inner=None, prefix=""):
    for name, value in (inner or schema)["properties"].items():
        value = resolved(schema, value)
        if "properties" in value and name != "resources":
            assert value["additionalProperties"] is False, prefix + name
            yield from schema_paths(schema, value, f"{prefix}{name}.")
        else:
            yield prefix + name


def check_schema(schema, values):
    """values.yaml and every option are accepted, and what should be refused is."""
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    for changes, _ in OPTIONS:
        jsonschema.validate(with_values(values, changes), schema, jsonschema.Draft7Validator)
    for changes, _ in REFUSED:
        assert not validator.is_valid(merged(values,
                                             changes_as_values(changes))), f"accepted: {changes}"


def merged(values, changes):
    """As Helm merges a user's file into values.yaml; it may have keys that are not there."""
    if not isinstance(values, dict) or not isinstance(changes, dict):
        return changes
    return {**values, **{name: merged(values.get(name), value) for name, value in changes.items()}}


def used_values(text):
    """Paths that the templates use: .Values.a.b, and $own.b of the helpers, which serve both kinds
    of pods."""
    used = set(re.findall(r"\.Values\.([A-Za-z.]+[A-Za-z])", text))
    used |= {f"models.{name}" for name in re.findall(r"\$models\.(\w+)", text)}
    used |= {f"{component}.{name}" for name in re.findall(r"\$own\.(\w+)", text)
             for component in ("verifier", "drafter")}
    # By a computed name, or inside of `with`.
    used |= {f"tls.{component}Secret" for component in ("verifier", "drafter")
             if '(printf "%sSecret" .component)' in text}
    return used


# What must be seen if it is set.
MISTAKES = [
    ({"verifier.flags": ["--drain-timout=9"]}, "no flag"),
    ({"verifier.flags": ["--device=cuda:0"]}, "GPU"),
    ({"verifier.flags": ["--drain-timeout=300"]}, "grace"),
    ({"verifier.resources": {}}, "resources"),
    ({"verifier.kvTokens": 65536}, "memory"),
    ({"verifier.flags": ["--kv-tokens=65536"]}, "twice"),
]
SPRIG = "/usr/share/gocode/src/github.com/Masterminds/sprig"


def can_render():
    return shutil.which("go") is not None and pathlib.Path(SPRIG).exists()


class Renderer:
    def __init__(self, source, binaries, name="render_chart"):
        self.program = binaries / name
        self.chart = source / "deploy/helm/outrider"
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode",
                       "GOFLAGS": "", "GOCACHE": str(binaries.resolve().parent / "go-cache")}
        subprocess.run(["go", "build", "-o", self.program, source / "tests/deploy/render_chart.go"],
                       check=True, env=environment)

    def objects(self, values):
        context = {"Values": values,
                   "Release": {"Name": "pair", "Namespace": "llm", "Service": "Helm"},
                   "Chart": {"Name": "outrider"}}
        done = subprocess.run([self.program, self.chart], input=json.dumps(context),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [o for o in yaml.safe_load_all(done.stdout) if o]


def check_rendered(renderer, values, programs):
    for changes, words in OPTIONS:
        objects = renderer.objects(with_values(values, changes))
        found = problems(objects, programs)
        assert not found, f"{changes}:\n" + "\n".join(found)
        assert not (wrong := unmet(words, objects)), f"{changes}: {wrong}"
    for file in sorted(renderer.chart.parent.glob("*.yaml")):  # values for users to begin with
        found = problems(renderer.objects(overlaid(values, yaml.safe_load(file.read_text()))),
                         programs)
        assert not found, f"{file.name}:\n" + "\n".join(found)
    for changes in combinations(COMBINATIONS, seed=1):
        found = problems(renderer.objects(with_values(values, changes)), programs)
        assert not found, f"{changes}:\n" + "\n".join(found)
    for changes, word in MISTAKES:
        found = problems(renderer.objects(with_values(values, changes)), programs)
        assert any(word in problem for problem in found), (changes, word, found)
    for changes, words in REFUSED_TOGETHER:
        try:
            renderer.objects(with_values(values, changes))
        except RuntimeError as error:
            assert words in str(error), (changes, error)
        else:
            raise AssertionError(f"rendered: {changes}")


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    chart = source / "deploy/helm/outrider"
    values = yaml.safe_load((chart / "values.yaml").read_text())
    schema = json.loads((chart / "values.schema.json").read_text())
    templates = {path.name: path.read_text() for path in sorted((chart / "templates").iterdir())}
    everything = "\n".join(templates.values())
    programs = Programs(source, binaries)

    leaves = set(paths(values))
    used = used_values(everything)
    known = leaves | {leaf.rsplit(".", 1)[0] for leaf in leaves}
    assert used <= known, f"not in values.yaml: {used - known}"
    unused = {leaf for leaf in leaves if not any(leaf == path or leaf.startswith(path + ".")
                                                 for path in used)}
    assert not unused, f"values that no template uses: {unused}"
    assert set(schema_paths(schema)) - {"global"} == leaves, set(schema_paths(schema)) ^ leaves
    check_schema(schema, values)
    if not can_render():
        print("not rendered: golang-go or golang-github-masterminds-sprig-dev is not installed")
        sys.exit(SKIPPED)
    check_rendered(Renderer(source, binaries), values, programs)
    print(f"{len(leaves)} values, {len(templates)} templates, {len(OPTIONS)} options and "
          f"{COMBINATIONS} combinations are sound, {len(MISTAKES)} mistakes are seen, "
          f"{len(REFUSED) + len(REFUSED_TOGETHER)} values are refused")


if __name__ == "__main__":
    main()
