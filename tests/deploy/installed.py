"""What tests of an installation share: running the programs that were installed."""

import re
import subprocess


def run(*command, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def check_links(pages):
    """The pages of a folder, none of which may link to a file that is not there."""
    found = sorted(pages.rglob("*.md"))
    missing = [
        f"{page.relative_to(pages)} links to {target}"
        for page in found
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text())
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()
    ]
    assert not missing, "not installed:\n" + "\n".join(missing)
    return found


def version_of(source):
    (version,) = re.findall(
        r'kVersion\[\] = "(.+)"', (source / "common/base/version.h").read_text()
    )
    return version


def serve_and_generate(processes, verifier, drafter, outrider):
    """Starts a pair and asks it for a text. Each argument is a command without an address: the
    verifier must take a free port, and the others get its own."""
    line = processes.start("verifier", verifier, await_line=" serving ").line
    address = "127.0.0.1:" + re.search(r" port=(\d+)", line).group(1)
    processes.start("drafter", [*drafter, "--verifier", address], await_line=" attached ")
    text = run(
        *outrider,
        "generate",
        "--verifier",
        address,
        "--prompt",
        "Once upon a time",
        "--max-tokens",
        8,
        "--ignore-eos",
        "--draft-length",
        2,
    )
    assert text.strip(), "no text"
