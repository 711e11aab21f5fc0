#!/usr/bin/env python3
"""The chart by the real helm, and the overlays by the real kubectl, against Kubernetes' schemas.

helm lints the chart and renders it option by option and several together; every object must follow
the schema of its kind and hold together with the others (manifests.py). render_chart.go, which
chart_test.py uses where there is no Helm, must make the same objects. What should be refused is,
with words that name the value.

  helm_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from kubernetes_tools import need_tools, schema_errors

TOOLS = need_tools(sys.argv[2])

import yaml  # noqa: E402, after need_tools: it may go on under another interpreter

from chart_test import Renderer, can_render  # noqa: E402
from chart_values import (
    OPTIONS,
    REFUSED,
    REFUSED_TOGETHER,
    changes_as_values,
    combinations,  # noqa: E402
    unmet,
    with_values,
)
from manifests import OVERLAYS, Programs, dashboard_of, problems  # noqa: E402

COMBINATIONS = 12


class Helm:
    def __init__(self, folder, chart):
        self.folder, self.chart = pathlib.Path(folder), chart

    def run(self, *arguments, changes=None):
        values = self.folder / "values.yaml"
        values.write_text(yaml.safe_dump(changes_as_values(changes or {})))
        command = [TOOLS["helm"], *arguments, "--values", values, "--namespace", "llm"]
        environment = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def objects(self, changes, chart=None):
        done = self.run("template", "pair", chart or self.chart, changes=changes)
        assert done.returncode == 0, f"{changes}: {done.stderr}"
        return [o for o in yaml.safe_load_all(done.stdout) if o]


def by_name(objects):
    return {(o["kind"], o["metadata"]["name"]): o for o in objects}


def check_sound(what, objects, programs):
    found = problems(objects, programs) + schema_errors(objects)
    assert not found, f"{what}:\n" + "\n".join(found)


def check_options(helm, programs, fallback):
    values = yaml.safe_load((helm.chart / "values.yaml").read_text())
    for changes, words in [
        *OPTIONS,
        *((changes, []) for changes in combinations(COMBINATIONS, seed=2)),
    ]:
        linted = helm.run("lint", "--strict", helm.chart, changes=changes)
        assert linted.returncode == 0, f"{changes}: {linted.stdout}"
        objects = helm.objects(changes)
        check_sound(changes, objects, programs)
        assert not (wrong := unmet(words, objects)), f"{changes}: {wrong}"
        if fallback:
            assert by_name(fallback.objects(with_values(values, changes))) == by_name(
                objects
            ), changes


def check_refused(helm):
    for changes, word in REFUSED + REFUSED_TOGETHER:
        done = helm.run("template", "pair", helm.chart, changes=changes)
        assert done.returncode != 0 and word in done.stderr, (changes, done.stderr)


def check_package(helm, source):
    """A packaged chart has the rules and the dashboard, which are links in the source tree."""
    done = subprocess.run(
        [TOOLS["helm"], "package", helm.chart, "--destination", helm.folder],
        capture_output=True,
        text=True,
        check=True,
    )
    (archive,) = helm.folder.glob("outrider-*.tgz")
    changes = {"prometheusRule.enabled": True, "dashboard.enabled": True}
    objects = helm.objects(changes, archive)
    assert by_name(objects) == by_name(helm.objects(changes)), done.stdout
    assert dashboard_of(objects) == json.loads(
        (source / "deploy/grafana/outrider.json").read_text()
    )
    rules = by_name(objects)["PrometheusRule", "pair-outrider"]["spec"]
    assert rules == yaml.safe_load((source / "deploy/prometheus/rules.yml").read_text())


def check_overlays(source, programs):
    for overlay in OVERLAYS:
        done = subprocess.run(
            [TOOLS["kubectl"], "kustomize", source / "deploy/kustomize" / overlay],
            capture_output=True,
            text=True,
            check=True,
        )
        check_sound(overlay, list(yaml.safe_load_all(done.stdout)), programs)


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    programs = Programs(source, binaries)
    fallback = Renderer(source, binaries, "render_chart_for_helm") if can_render() else None
    with tempfile.TemporaryDirectory() as folder:
        helm = Helm(folder, source / "deploy/helm/outrider")
        check_options(helm, programs, fallback)
        check_refused(helm)
        check_package(helm, source)
    check_overlays(source, programs)
    print(
        f"helm: {len(OPTIONS)} options and {COMBINATIONS} combinations are sound"
        f"{' and as rendered without it' if fallback else ''}, "
        f"{len(REFUSED) + len(REFUSED_TOGETHER)} are refused; "
        f"kubectl: {len(OVERLAYS)} overlays are sound"
    )


if __name__ == "__main__":
    main()
