#!/usr/bin/env python3
"""The two commands of docs/installation.md for the Debian packages, in a root that debootstrap has
just made: apt finds everything that they depend on, and the default pair answers.

Nothing boots there, so a `systemctl` of the test's own writes down what is to be started, and the
test starts it as the units say. Needs root's rights and some minutes, and fetches 100 MB: runs only
where OUTRIDER_TEST_DEBIAN_MIRROR names a mirror (http://deb.debian.org/debian).

  clean_root_test.py SOURCE_DIR BINARY_DIR
"""

import ctypes
import os
import pathlib
import re
import shutil
import sys
import tempfile

from installed import run
from package_root import SERVICES, SYSTEMCTL, make_packages, make_root, start_command, unmount
from processes import SKIPPED, Processes, need

MIRROR = os.environ.get("OUTRIDER_TEST_DEBIAN_MIRROR", "")
CLONE_NEWNET = 0x40000000


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def bootstrapped(build):
    """A Debian 12 without anything beyond the essential packages and apt; made once a build."""
    folder = build / "tests/debian12"
    if not folder.exists():
        partial = folder.with_name("debian12.partial")
        shutil.rmtree(partial, ignore_errors=True)
        run("debootstrap", "--variant=minbase", "bookworm", partial, MIRROR)
        partial.rename(folder)
    return folder


def commands(page):
    """The two commands: the block after the sentence that promises them."""
    block = re.search(r"by two commands:\n\n((?:    .*\n)+)", page).group(1)
    found = [line.strip() for line in block.splitlines()]
    assert len(found) == 2 and found[0].startswith("sudo apt install "), found
    return [found[0].removeprefix("sudo "), found[1]]


def leave_network():
    """So that the ports of the configuration files are free, whatever else runs here."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        skip("this process may not make a network namespace")
    run("ip", "link", "set", "lo", "up")


def check(root, packages, page, folder):
    (root.path / "build/packages").mkdir(parents=True)
    for package in packages.values():
        shutil.copy(package, root.path / "build/packages")
    shutil.copy("/etc/resolv.conf", root.path / "etc/resolv.conf")
    root.write("etc/apt/apt.conf.d/90assume-yes", 'APT::Get::Assume-Yes "true";\n')
    root.write("usr/bin/systemctl", SYSTEMCTL).chmod(0o755)  # on the PATH that apt gives to dpkg
    install, generate = commands(page)
    root.run("apt-get", "update")
    root.run("bash", "-c", install)
    asked = root.read("systemctl.log")
    for service in SERVICES:
        assert f"start {service}.service" in asked, asked
    leave_network()
    with Processes(folder) as processes:
        for service, line in zip(SERVICES, (" serving ", " attached ")):
            processes.start(service, start_command(root, service), await_line=line)
        text = root.run("bash", "-c", generate)
    assert text.strip(), "no text"
    return text


def main():
    if not MIRROR:
        skip("OUTRIDER_TEST_DEBIAN_MIRROR names no mirror to fetch Debian 12 from")
    need("debootstrap", "dpkg-deb", "dpkg-shlibdeps", "file", "cpack", "ip")
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).parent.resolve()
    page = (source / "docs/installation.md").read_text()
    place = pathlib.Path(tempfile.mkdtemp())
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        try:
            root = make_root(place, bootstrapped(build))
            if root is None:
                skip("this needs root's rights")
            packages = make_packages(build, folder / "packages")
            print(check(root, packages, page, folder))
        finally:
            unmount(place)


if __name__ == "__main__":
    main()
