#!/usr/bin/env python3
"""`cmake --install` into a prefix, which is then moved: the pair serves from there.

prefix_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from installed import check_links, run, serve_and_generate, version_of
from processes import TIME_LIMIT, Processes

PROGRAMS = ("outrider", "outrider-verifier", "outrider-drafter", "outrider-simulate")
# A file of each kind of data.
DATA = (
    "models/default/target/model.safetensors",
    "models/default/drafter/model.safetensors",
    "helm/outrider/Chart.yaml",
    "kustomize/base/kustomization.yaml",
    "compose/compose.yaml",
    "grafana/outrider.json",
    "prometheus/rules.yml",
)
COMMANDS = (
    "generate", "bench", "status", "plan", "train-head", "simulate-control", "simulate-fleet"
)


def check_programs(prefix, version):
    chart = (prefix / "share/outrider/helm/outrider/Chart.yaml").read_text()
    assert f"\nappVersion: {version}\n" in chart, "Chart.yaml has another appVersion"
    for program in PROGRAMS:
        assert run(prefix / "bin" / program, "--version").strip() == version, program
    # It starts outrider-simulate, which lies beside it.
    assert "--scenario" in run(prefix / "bin/outrider", "simulate", "control", "--help")


def check_cuda(prefix, binaries):
    """Without a device the backend says so, but it is found."""
    if not (binaries / "outrider_cuda_backend.so").exists():
        return
    assert (prefix / "lib/outrider_cuda_backend.so").is_file()
    target = prefix / "share/outrider/models/default/target"
    tried = subprocess.run(
        [
            prefix / "bin/outrider-verifier",
            "--model",
            target,
            "--device",
            "cuda:99",
            "--listen",
            "127.0.0.1:0",
            "--metrics",
            "",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT,
    )
    assert tried.returncode == 1, tried.stderr
    wrong = [line for line in tried.stderr.splitlines() if "cannot open shared object" in line]
    assert not any(
        str(prefix / "lib/outrider_cuda_backend.so") in line for line in wrong
    ), tried.stderr


def check_manuals(prefix, build):
    if not (build / "man").is_dir():
        return "no manual pages: help2man is not installed"
    pages = prefix / "share/man/man1"
    expected = {f"{name}.1" for name in (*PROGRAMS, *(f"outrider-{c}" for c in COMMANDS))}
    found = {page.name for page in pages.iterdir()}
    assert expected <= found, expected - found
    flags = (pages / "outrider-verifier.1").read_text().replace("\\-", "-")
    assert "--max-batch-tokens" in flags and "/etc/outrider/verifier.conf" in flags
    for page in pages.iterdir():
        for named in re.findall(r"/usr/(share/doc/\S+)", page.read_text()):
            assert (prefix / named).is_file(), (page.name, named)
    if shutil.which("man") is None:
        return f"{len(found)} manual pages"
    for page in pages.iterdir():
        warned = subprocess.run(
            ["man", "--warnings", "-l", page],
            capture_output=True,
            text=True,
            check=True,
            env={"MANWIDTH": "100", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        )
        assert not warned.stderr, (page.name, warned.stderr)
    return f"{len(found)} manual pages"


# What bash completes, line by line: words, then what must be among the answers, or must be all.
COMPLETIONS = """
outrider|g|=generate
outrider|generate|--rul|=--rule
outrider|generate|--rule|bl|=block
outrider|generate|--rule|=|bl|=block
outrider|generate|--json||--seed
outrider|simulate|control|--pol|=--policy
outrider-verifier|--kv-cache-dtype||fp8
outrider-verifier|--weights||int4
outrider-drafter|--exit|=--exit-on-refusal
outrider-drafter|--flag|=--flagfile
"""
ASK_BASH = """
compopt() { :; }
source "$1" || exit 1
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_outrider "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def check_completions(prefix):
    """By the files that bash loads for each program."""
    for line in COMPLETIONS.split():
        *words, expected = line.split("|")
        file = prefix / "share/bash-completion/completions" / words[0]
        if expected[:1] != "=" and words[-1:] != [""]:
            raise AssertionError(line)
        answers = run(
            "bash",
            "-c",
            ASK_BASH,
            "bash",
            file,
            *words,
            env={"PATH": f"{prefix}/bin:/usr/bin:/bin"},
        ).split()
        if expected.startswith("="):
            assert answers == [expected[1:]], (words, answers)
        else:
            assert expected in answers, (words, answers)
    zsh = prefix / "share/zsh/vendor-completions"
    assert {f"_{program}" for program in PROGRAMS} == {file.name for file in zsh.iterdir()}
    if shutil.which("zsh"):
        run("zsh", "-n", zsh / "_outrider")


def check_pair(prefix, folder):
    pair = prefix / "share/outrider/models/default"
    metrics = ["--metrics", "127.0.0.1:0"]
    with Processes(folder) as processes:
        serve_and_generate(
            processes,
            [
                prefix / "bin/outrider-verifier",
                "--model",
                pair / "target",
                "--listen",
                "127.0.0.1:0",
                *metrics,
            ],
            [prefix / "bin/outrider-drafter", "--model", pair / "drafter", *metrics],
            [prefix / "bin/outrider"],
        )


def main():
    source, binaries = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    build = binaries.parent
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        run("cmake", "--install", build, "--prefix", folder / "first", "--strip")
        prefix = folder / "moved"
        (folder / "first").rename(prefix)
        for path in DATA:
            assert (prefix / "share/outrider" / path).is_file(), path
        assert not (prefix / "lib/systemd").exists() and not (prefix / "etc").exists()
        check_programs(prefix, version_of(source))
        check_cuda(prefix, binaries)
        assert len(check_links(prefix / "share/doc/outrider")) > 20
        manuals = check_manuals(prefix, build)
        check_completions(prefix)
        check_pair(prefix, folder)
    print(f"the pair serves from a moved prefix; {manuals}")


if __name__ == "__main__":
    main()
