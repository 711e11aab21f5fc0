#!/usr/bin/env python3
"""The Debian packages: made, looked at, and installed, upgraded and purged in a root of their own.

The root is an overlay over this machine's, so it holds the libraries that the packages depend on,
and nothing done to it lasts. It needs root's rights; without them the packages are looked at only.
A `systemctl` of the test's own writes down what the maintainer scripts ask of it.

  packages_test.py SOURCE_DIR BINARY_DIR
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from installed import check_links, run, serve_and_generate, version_of
from processes import Processes, need

SERVICES = ("outrider-verifier", "outrider-drafter")
CLONE_NEWNS = 0x20000
# systemd's measure, from 0 (closed) to 100 (open).
MOST_EXPOSURE = 25
SYSTEMCTL = """#!/bin/sh
echo "$*" >>/systemctl.log
case "$*" in *is-enabled*) echo enabled ;; esac
"""


def make_packages(build, folder, **settings):
    settings = {"CPACK_DEBIAN_COMPRESSION_TYPE": "none", **settings}
    defined = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    run("cpack", "--config", build / "CPackConfig.cmake", "-B", folder, *defined)
    return {path.name.split("_")[0]: path for path in folder.glob("*.deb")}


def fields(package):
    return dict(re.findall(r"^([\w-]+): (.*)$", run("dpkg-deb", "--field", package), re.MULTILINE))


def check_fields(packages, version):
    for name, package in packages.items():
        told = fields(package)
        assert told["Package"] == name and told["Version"] == f"{version}-1", told
        depends = set(re.findall(r"(?:^|, )([\w.+-]+)", told.get("Depends", "")))
        if name == "outrider-models":
            assert told["Architecture"] == "all" and not depends, told
        elif name != "outrider-cuda":
            assert {"libc6", "libstdc++6", "libgrpc++1.51", "libprotobuf32"} <= depends, (
                name,
                depends,
            )
        assert (name in SERVICES) == ("adduser" in depends), (name, depends)
        assert "usr/share/doc/" + name + "/copyright" in run(
            "dpkg-deb", "--contents", package
        ), name


def check_scripts(package, folder):
    control = folder / "control"
    run("dpkg-deb", "--control", package, control)
    for script in ("postinst", "prerm", "postrm"):
        text = (control / script).read_text()
        assert "@" not in text and os.access(control / script, os.X_OK), script
        run("sh", "-n", control / script)
    run("rm", "-r", control)


class Root:
    """An overlay over this machine's files, in a mount namespace of this process. `place`: an empty
    folder outside of what is removed with its content at the end, because devices are bound in it.
    """

    def __init__(self, place):
        self.place, self.path, self.upper = place, place / "root", place / "upper"
        run("mount", "-t", "tmpfs", "tmpfs", place)  # an overlay cannot lie on an overlay
        for path in (self.path, self.upper, place / "work"):
            path.mkdir()
        run(
            "mount",
            "-t",
            "overlay",
            "overlay",
            "-o",
            f"lowerdir=/,upperdir={self.upper},workdir={place}/work",
            self.path,
        )
        run("mount", "-t", "proc", "proc", self.path / "proc")
        for device in ("null", "urandom"):
            self.write(f"dev/{device}", "")
            run("mount", "--bind", f"/dev/{device}", self.path / "dev" / device)
        self.write("usr/local/sbin/systemctl", SYSTEMCTL).chmod(0o755)
        (self.path / "run/systemd/system").mkdir(parents=True, exist_ok=True)  # systemd runs
        # Images of containers forbid to start services.
        (self.path / "usr/sbin/policy-rc.d").unlink(missing_ok=True)

    def write(self, path, text):
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self, path):
        return (self.path / path).read_text()

    def run(self, *command, user="root"):
        return run(
            *self.command(command, user),
            env={
                "PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
            },
        )

    def command(self, words, user):
        return ["chroot", f"--userspec={user}:{user}", self.path, *words]

    def dpkg(self, action, *packages):
        """What was asked of systemctl meanwhile."""
        asked = self.write("systemctl.log", "")
        self.run("dpkg", "--no-triggers", action, *packages)
        return asked.read_text()

    def install(self, packages):
        for package in packages:
            (self.path / package.name).write_bytes(package.read_bytes())
        return self.dpkg("--install", *(f"/{package.name}" for package in packages))

    def has_user(self, name):
        return re.search(f"^{name}:", self.read("etc/passwd"), re.MULTILINE) is not None


def make_root(place):
    """None where this process may not make one."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        return None
    try:
        run("mount", "--make-rprivate", "/")
        return Root(place)
    except SystemExit as error:
        print(error)
        return None


def check_units(root):
    for service in SERVICES:
        unit = root.read(f"lib/systemd/system/{service}.service")
        assert f"User={service}\n" in unit and "Restart=on-failure\n" in unit
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE).group(1))
        if service == "outrider-verifier":
            drain = re.search(
                r"--drain-timeout .*=(\d+)", root.run("outrider-verifier", "--help")
            ).group(1)
            assert stop > int(drain), "systemd kills a verifier that drains"
        root.run("systemd-analyze", "verify", "--man=no", f"/lib/systemd/system/{service}.service")
        root.run(
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={MOST_EXPOSURE}",
            f"/lib/systemd/system/{service}.service",
        )


def check_settings(root):
    """What the configuration files show in comments is a flag, too."""
    for service in SERVICES:
        known = set(re.findall(r"--([a-z][a-z0-9-]*)", root.run(service, "--help")))
        name = service.removeprefix("outrider-")
        for line in root.read(f"etc/outrider/{name}.conf").splitlines():
            if match := re.match(r"#?([a-z-]+)=", line):
                assert match.group(1) in known, (name, line)


def settle(root):
    """Edits the configuration files as an operator does, here for ports that are free."""
    for name in ("verifier", "drafter"):
        path = f"etc/outrider/{name}.conf"
        text = re.sub(
            r"^(listen|metrics)=.*$", r"\1=127.0.0.1:0", root.read(path), flags=re.MULTILINE
        )
        text = re.sub(r"^verifier=.*\n", "", text, flags=re.MULTILINE)
        root.write(path, text + "# edited\n")


def start_command(root, service):
    unit = root.read(f"lib/systemd/system/{service}.service")
    command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1).split()
    return root.command(command, service)


def check_pair(root, folder):
    with Processes(folder) as processes:
        serve_and_generate(
            processes,
            start_command(root, "outrider-verifier"),
            start_command(root, "outrider-drafter"),
            root.command(["outrider"], "root"),
        )


def left_behind(root):
    """Files of the root that name us, except the packages and the cache of manual pages."""
    names = [path.relative_to(root.upper) for path in root.upper.rglob("*outrider*")]
    others = {name for name in names if name.suffix == ".deb" or "var/cache/man" in str(name)}
    return [str(name) for name in names if name not in others and (root.path / name).exists()]


def check_in_root(root, packages, newer, folder):
    asked = root.install(packages)
    for service in SERVICES:
        assert root.has_user(service), service
        assert f"start {service}.service" in asked, asked
        assert f"preset {service}.service" in asked, asked  # enables it
    check_units(root)
    check_settings(root)
    settle(root)
    check_pair(root, folder)

    asked = root.install(newer)
    for service in SERVICES:
        assert f"restart {service}.service" in asked and f"stop {service}" not in asked, asked
    for name in ("verifier", "drafter"):
        assert "# edited" in root.read(f"etc/outrider/{name}.conf"), "an upgrade replaced it"

    names = [package.name.split("_")[0] for package in packages]
    asked = root.dpkg("--remove", *names)
    for name in ("verifier", "drafter"):
        assert f"stop outrider-{name}.service" in asked, asked
        assert (root.path / f"etc/outrider/{name}.conf").exists(), "removal is not purging"
    for service in SERVICES:  # as systemd makes it for StateDirectory=
        root.write(f"var/lib/{service}/traces.jsonl", "")
    root.dpkg("--purge", *names)
    assert not left_behind(root), left_behind(root)
    assert not any(root.has_user(service) for service in SERVICES)
    assert "outrider" not in root.read("etc/group")


def check_installation(packages, newer, folder):
    """What was done, in words."""
    place = pathlib.Path(tempfile.mkdtemp())
    try:
        root = make_root(place)
        if root is None:
            return "looked at, but not installed: this needs root's rights"
        check_in_root(root, packages, newer, folder)
        return "installed, served, upgraded and purged"
    finally:
        umount = ["umount", "--recursive", "--lazy", place]
        subprocess.run(umount, stderr=subprocess.DEVNULL, check=False)
        place.rmdir()


def main():
    need("dpkg-deb", "dpkg-shlibdeps", "file", "cpack")
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).parent
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        packages = make_packages(build, folder / "1")
        names = ["outrider", "outrider-models", *SERVICES]
        assert set(packages) - {"outrider-cuda"} == set(names), packages
        check_fields(packages, version_of(source))
        for service in SERVICES:
            check_scripts(packages[service], folder)
        run("dpkg-deb", "--extract", packages["outrider"], folder / "client")
        assert len(check_links(folder / "client/usr/share/doc/outrider")) > 20
        newer = make_packages(
            build,
            folder / "2",
            CPACK_DEBIAN_PACKAGE_RELEASE=2,
            CPACK_COMPONENTS_ALL="verifier;drafter",
        )
        done = check_installation([packages[name] for name in names], newer.values(), folder)
    print(f"{len(packages)} packages: {done}")


if __name__ == "__main__":
    main()
