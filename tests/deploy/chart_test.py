#!/usr/bin/env python3
"""The Helm chart's templates against its values, its schema and the programs.

Templates are not rendered (that takes helm): the test reads their text. Every value that they use must
be in values.yaml, every value must be used and be in the schema, and every flag must be a program's.

  chart_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import re
import sys

from processes import SKIPPED

try:
    import yaml

    from manifests import Programs
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(SKIPPED)

# Flags that only a value which is off by default adds: a program may not have them yet.
OPTIONAL_FLAGS = {"--http": "http"}
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


def check_blocks(name, text):
    """Each if, range and define has its end."""
    depth = 0
    for action in re.findall(r"\{\{-?\s*(?:/\*.*?\*/|(\w+))", text, re.DOTALL):
        depth += {"if": 1, "range": 1, "define": 1, "with": 1, "end": -1}.get(action, 0)
        assert depth >= 0, f"{name}: an end too many"
    assert depth == 0, f"{name}: {depth} blocks without an end"


def check_flags(templates, programs, values):
    known = programs.flags["outrider-verifier"] | programs.flags["outrider-drafter"]
    for flag, group in OPTIONAL_FLAGS.items():
        if flag not in known:
            assert values[group]["enabled"] is False, f"{flag} is in no program, and on by default"
    for file, program in {"verifier.yaml": "outrider-verifier", "drafter.yaml": "outrider-drafter"}.items():
        arguments = templates[file].split(" args:\n")[1].split(" ports:\n")[0]
        flags = set(re.findall(r"- (--[a-z][a-z0-9-]*)", arguments))
        unknown = flags - programs.flags[program] - OPTIONAL_FLAGS.keys()
        assert len(flags) > 5 and not unknown, f"{program} has no {unknown}"


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
    for name, text in templates.items():
        check_blocks(name, text)
        includes = set(re.findall(r'include "([\w.]+)"', text))
        assert includes <= set(re.findall(r'define "([\w.]+)"', everything)), (name, includes)
    check_flags(templates, programs, values)
    grace = int(re.search(r"add \.Values\.verifier\.drainSeconds (\d+)", templates["verifier.yaml"]).group(1))
    stop = int(re.search(r'\[sleep, "(\d+)"\]', templates["verifier.yaml"]).group(1))
    assert grace >= stop + 5, "the pod's grace is short for preStop and the drain"
    print(f"{len(leaves)} values, {len(templates)} templates")


if __name__ == "__main__":
    main()
