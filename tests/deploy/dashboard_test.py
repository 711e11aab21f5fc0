#!/usr/bin/env python3
"""The Grafana dashboard: every panel says what it shows, and Grafana's own types know every field.

The second needs PyPI's grafana-foundation-sdk (tests/requirements.txt); without it the test is
skipped after the first.

  dashboard_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import sys

from packages import need_packages


def check_panels(panels):
    charts = [panel for panel in panels if panel["type"] != "row"]
    for panel in charts:
        description = panel.get("description", "")
        assert len(description) > 20 and description.endswith(
            "."), f"{panel['title']}: {description!r} describes nothing"
    for key in ("id", "title"):
        values = [panel[key] for panel in panels]
        twice = f"a {key} is there twice: {sorted(map(str, values))}"
        assert len(set(values)) == len(values), twice
    for i, one in enumerate(panels):
        a = one["gridPos"]
        assert a["x"] + a["w"] <= 24, f"{one['title']} is wider than the page"
        for other in panels[:i]:
            b = other["gridPos"]
            apart = (a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
                     or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"])
            assert apart, f"{one['title']} covers {other['title']}"


def lost(ours, theirs, path="dashboard"):
    """What is not the same in `theirs`: a field that Grafana's types do not know, or another
    value."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in theirs:
                yield f"{path}.{key}"
            else:
                yield from lost(value, theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (one, other) in enumerate(zip(ours, theirs)):
            yield from lost(one, other, f"{path}[{i}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} is read as {theirs!r}"


def check_types(ours):
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    def read(dashboard):
        return list(lost(dashboard,
                         json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))))

    register_default_plugins()
    unknown = read(ours)
    assert not unknown, "\n".join(unknown)
    misspelt = json.loads(json.dumps(ours).replace('"legendFormat"', '"legendFomat"'))
    assert read(misspelt), "a misspelt field was taken"


def main():
    path = pathlib.Path(sys.argv[1]) / "deploy/grafana/outrider.json"
    dashboard = json.loads(path.read_text())
    check_panels(dashboard["panels"])
    need_packages("grafana_foundation_sdk")
    check_types(dashboard)
    print(f"{len(dashboard['panels'])} panels; Grafana's types know every field")


if __name__ == "__main__":
    main()
