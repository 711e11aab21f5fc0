#!/usr/bin/env python3
"""The Debian packages: made, looked at, and installed, upgraded and purged in a root of their own.

The root is an overlay over this machine's, so it holds the libraries that the packages depend on,
and nothing done to it lasts. It needs root's rights; without them the packages are looked at only.
A `systemctl` of the test's own writes down what the maintainer scripts ask of it.

  packages_test.py SOURCE_DIR BINARY_DIR
"""

import os
import pathlib
import re
import sys
import tempfile

from installed import check_links, run, serve_and_generate, version_of
from package_root import SERVICES, make_packages, make_root, start_command, unmount
from processes import Processes, need

# systemd's measure, from 0 (closed) to 100 (open).
MOST_EXPOSURE = 25


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
        unmount(place)


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
