"""What the tests of the Debian packages share: the packages, and a root to install them in."""

import ctypes
import os
import re
import subprocess

from installed import run

SERVICES = ("outrider-verifier", "outrider-drafter")
CLONE_NEWNS = 0x20000
SYSTEMCTL = """#!/bin/sh
echo "$*" >>/systemctl.log
case "$*" in *is-enabled*) echo enabled ;; esac
"""


def make_packages(build, folder, **settings):
    settings = {"CPACK_DEBIAN_COMPRESSION_TYPE": "none", **settings}
    defined = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    run("cpack", "--config", build / "CPackConfig.cmake", "-B", folder, *defined)
    return {path.name.split("_")[0]: path for path in folder.glob("*.deb")}


class Root:
    """An overlay over the files of `lower`, in a mount namespace of this process. `place`: an empty
    folder outside of what is removed with its content at the end, because devices are bound in it.
    """

    def __init__(self, place, lower):
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
            f"lowerdir={lower},upperdir={self.upper},workdir={place}/work",
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


def make_root(place, lower="/"):
    """None where this process may not make one."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        return None
    try:
        run("mount", "--make-rprivate", "/")
        return Root(place, lower)
    except SystemExit as error:
        print(error)
        return None


def unmount(place):
    umount = ["umount", "--recursive", "--lazy", place]
    subprocess.run(umount, stderr=subprocess.DEVNULL, check=False)
    place.rmdir()


def start_command(root, service):
    unit = root.read(f"lib/systemd/system/{service}.service")
    command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1).split()
    return root.command(command, service)
