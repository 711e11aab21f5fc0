"""The level `restricted` of Kubernetes' Pod Security Standards, for Linux pods.

From https://kubernetes.io/docs/concepts/security/pod-security-standards/ (v1.31). Stricter in one
point: fields of UNSET, which may have some values there, must not be set at all.
"""

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SECCOMP = {"RuntimeDefault", "Localhost"}
UNSET = ("seLinuxOptions", "appArmorProfile", "windowsOptions", "sysctls", "procMount")


def violations(spec):
    """What the API server would say of a pod's spec in a namespace that enforces `restricted`."""
    found = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        if not kinds <= VOLUMES:
            found.append(f"volume {volume['name']} is of the kind {kinds - VOLUMES}")
    pod = spec.get("securityContext") or {}
    found += [f"securityContext.{name} is set" for name in UNSET if name in pod]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind, []):
            found += [f"{container['name']}: {what}" for what in container_errors(container, pod)]
    return found


def container_errors(container, pod):
    own = container.get("securityContext") or {}
    capabilities = own.get("capabilities") or {}
    root = own.get("runAsUser", pod.get("runAsUser")) == 0
    seccomp = (own.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type")
    checks = {
        "runAsNonRoot is not true": own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True,
        "runAsUser is 0": not root,
        "seccompProfile is neither RuntimeDefault nor Localhost": seccomp in SECCOMP,
        "allowPrivilegeEscalation is not false": own.get("allowPrivilegeEscalation") is False,
        "privileged is set": not own.get("privileged"),
        "capabilities do not drop ALL": "ALL" in capabilities.get("drop", []),
        "capabilities are added": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
        "a host port is open": not any(port.get("hostPort") for port in container.get("ports", [])),
    }
    checks |= {f"securityContext.{name} is set": name not in own for name in UNSET}
    return [what for what, good in checks.items() if not good]
