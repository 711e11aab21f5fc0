#!/usr/bin/env python3
"""Tokens/s of every fixed draft length, of no drafts and of the controller, cell by cell.

A cell is a domain of the prompts (or all of them), a concurrency and an added round trip. Within a cell the
settings take turns, several times over, on one verifier and one drafter; figures are medians, and those to trust
are the ratios. Prints a Markdown table and, with --svg, draws it.
"""
import argparse
import json
import statistics
import tempfile
from pathlib import Path

from bench_support import Service, add_common_flags, command_line, progress, table, write_json


def prompts_of(args, domain: str, folder: Path) -> Path:
    lines = [line for line in args.prompts.read_text(encoding="utf-8").splitlines()
             if domain == "mix" or json.loads(line).get("domain") == domain]
    path = folder / f"{domain}.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def settings(lengths: list[int]) -> dict[str, list[str]]:
    out = {"off": ["--speculation", "off"], "adaptive": []}
    for length in lengths:
        out[str(length)] = ["--draft-length", str(length)]
    return out


def run_cell(args, service: Service, prompts: Path, concurrency: int) -> dict[str, float]:
    speeds: dict[str, list[float]] = {}
    service.args.prompts = prompts
    requests = max(args.requests, 2 * concurrency)
    common = ["--concurrency", concurrency, "--requests", requests, "--max-tokens", args.max_tokens,
              "--temperature", args.temperature]
    service.bench(common)  # warms caches up, and shows the controller what things cost
    for _ in range(args.repetitions):
        for name, flags in settings(args.lengths).items():
            speeds.setdefault(name, []).append(service.bench([*common, *flags])["tokens_per_second"])
    return {name: statistics.median(values) for name, values in speeds.items()}


def draw(path: Path, cells: list[dict]) -> None:
    """Speed over no drafts: a dot for each fixed length, a bar for the controller."""
    width, height, left = 60 * len(cells) + 80, 320, 60
    top = max(1.2, max(v / c["speeds"]["off"] for c in cells for v in c["speeds"].values()) * 1.05)

    def y(ratio: float) -> float:
        return height - 60 - ratio / top * (height - 90)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
             ' font-size="10">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for ratio in [0, 0.5, 1, 1.5, 2]:
        if ratio <= top:
            parts.append(f'<line x1="{left}" x2="{width}" y1="{y(ratio)}" y2="{y(ratio)}" stroke="#ccc"/>'
                         f'<text x="30" y="{y(ratio) + 3}">{ratio}</text>')
    for i, cell in enumerate(cells):
        x = left + 60 * i + 30
        for name, speed in cell["speeds"].items():
            ratio = speed / cell["speeds"]["off"]
            if name == "adaptive":
                parts.append(f'<line x1="{x - 14}" x2="{x + 14}" y1="{y(ratio)}" y2="{y(ratio)}" stroke="#c33"'
                             ' stroke-width="3"/>')
            elif name != "off":
                parts.append(f'<circle cx="{x}" cy="{y(ratio)}" r="3" fill="#36c"/>')
        for line, text in enumerate([cell["domain"], f'{cell["concurrency"]} at once', f'{cell["rtt_ms"]:g} ms']):
            parts.append(f'<text x="{x}" y="{height - 42 + 13 * line}" text-anchor="middle">{text}</text>')
    parts.append("</svg>")
    path.write_text("\n".join(parts), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_flags(parser)
    parser.add_argument("--domains", nargs="+", default=["stories", "maths", "code", "mix"])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rtt-ms", type=float, nargs="+", default=[0, 20])
    parser.add_argument("--lengths", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--svg", type=Path, help="draw the table into this file")
    args = parser.parse_args()

    cells = []
    with tempfile.TemporaryDirectory() as folder:
        files = {domain: prompts_of(args, domain, Path(folder)) for domain in args.domains}
        for rtt in args.rtt_ms:
            with Service(args, "control", args.target, drafter=args.drafter, rtt_ms=rtt, ahead=True) as service:
                for concurrency in args.concurrency:
                    for domain in args.domains:
                        speeds = run_cell(args, service, files[domain], concurrency)
                        cells.append({"domain": domain, "concurrency": concurrency, "rtt_ms": rtt, "speeds": speeds})
                        progress(f"{domain}, {concurrency} at once, {rtt:g} ms: adaptive over off "
                                 f"{speeds['adaptive'] / speeds['off']:.3f}")

    rows, over_off, over_best = [], [], []
    for cell in cells:
        speeds = cell["speeds"]
        best = max((str(n) for n in args.lengths), key=lambda n: speeds[n])
        best_speed = max(speeds[best], speeds["off"])
        over_off.append(speeds["adaptive"] / speeds["off"])
        over_best.append(speeds["adaptive"] / best_speed)
        rows.append([cell["domain"], str(cell["concurrency"]), f"{cell['rtt_ms']:g}", f"{speeds['off']:.0f}",
                     f"{best}: {speeds[best]:.0f}", f"{speeds['adaptive']:.0f}", f"{over_off[-1]:.2f}",
                     f"{over_best[-1]:.2f}"])
    print(f"`{command_line()}`\n")
    print(table(["prompts", "at once", "round trip ms", "off", "best length", "adaptive", "over off",
                 "over the best of off and lengths"], rows))
    print(f"\nadaptive over off: worst {min(over_off):.3f}; over the best fixed plan: mean "
          f"{statistics.mean(over_best):.3f}")
    if args.svg:
        draw(args.svg, cells)
    write_json(args, cells)


if __name__ == "__main__":
    main()
