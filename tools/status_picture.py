#!/usr/bin/env python3
"""Makes docs/status.png: the status page of a verifier with two drafters under real load, on this
machine, with the default pair. Needs a headless Chromium (Debian: chromium-headless-shell).

  tools/status_picture.py BUILD_DIR [--out docs/status.png] [--layers 0] [--seconds 130] [--dark]

With --layers the target gets layers that change nothing (deepen_checkpoint): it is then as slow
beside its drafters as a larger model.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(SOURCE / "tests/deploy"), str(SOURCE / "tests/support")]

import browser  # noqa: E402
from processes import Processes  # noqa: E402

SIZE = "1290,1260"  # pixels


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "docs/status.png")
    parser.add_argument("--layers", type=int, default=0, help="further layers of the target")
    parser.add_argument("--seconds", type=float, default=130,
                        help="of load before the picture is taken")
    parser.add_argument("--dark", action="store_true")
    return parser.parse_args()


def main():
    args = parse()
    if browser.program() is None:
        sys.exit(f"none of {', '.join(browser.PROGRAMS)} is installed")
    bin_dir, models = args.build / "bin", SOURCE / "models/default"
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        target = models / "target"
        if args.layers > 0:
            target = pathlib.Path(folder) / "target"
            subprocess.run([bin_dir / "deepen_checkpoint", models / "target", target,
                            str(args.layers)], check=True)
        line = processes.start(
            "verifier",
            [bin_dir / "outrider-verifier", "--model", target, "--listen", "127.0.0.1:0",
             "--metrics", "127.0.0.1:0", "--cores", "0"],
            await_line=" serving ",
        ).line
        address = "127.0.0.1:" + re.search(r" port=(\d+)", line).group(1)
        page = f"http://127.0.0.1:{re.search(r'metrics_port=([0-9]+)', line).group(1)}/status"
        for name in ("drafter-a", "drafter-b"):
            processes.start(name, [bin_dir / "outrider-drafter", "--model", models / "drafter",
                                   "--verifier", address, "--metrics", "", "--name", name,
                                   "--cores", "1"], await_line=" attached ")
        bench = [bin_dir / "outrider", "bench", "--verifier", address, "--prompts",
                 SOURCE / "tests/bench/prompts.jsonl", "--max-tokens", "220", "--ignore-eos",
                 "--requests", "100000", "--temperature", "0.6"]
        processes.start("steady", [*bench, "--concurrency", "1"])
        began = time.monotonic()
        # More of it now and then.
        while (left := args.seconds - (time.monotonic() - began)) > 0:
            more = processes.start("more", [*bench, "--concurrency", "1"])
            time.sleep(min(25, left))
            more.terminate()
            more.wait()
            time.sleep(max(0, min(12, args.seconds - (time.monotonic() - began))))
        processes.start("last", [*bench, "--concurrency", "1"])
        time.sleep(6)
        flags = [f"--window-size={SIZE}", f"--screenshot={folder}/status.png"]
        if args.dark:
            flags.append("--blink-settings=preferredColorScheme=0")
        browser.run(folder, page, *flags)
        args.out.write_bytes((pathlib.Path(folder) / "status.png").read_bytes())
    print(f"{args.out}: {args.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
