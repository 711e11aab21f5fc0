#!/usr/bin/env python3
"""Tokens/s of every fixed draft length, of no drafts and of the controller, cell by cell.

A cell is a domain of the prompts (or all of them), a concurrency and an added round trip. Within a
cell the settings alternate several times on one verifier and one drafter; rates are those of a
window with all sessions running. No drafts are measured twice as often, as often as the controller:
the difference between these two is noise of the machine, and a difference to the controller that is
no larger is not significant. Prints a Markdown table and, with --svg, draws it. Cells that --cells
FILE contains are not measured again.
"""
import argparse
import json
import statistics
import tempfile
from pathlib import Path

from bench_support import Service, add_common_flags, command_line, deepen, progress, table


def prompts_of(args, domain: str, folder: Path) -> Path:
    lines = [line for line in args.prompts.read_text(encoding="utf-8").splitlines()
             if domain == "mix" or json.loads(line).get("domain") == domain]
    path = folder / f"{domain}.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


OFF, AGAIN, ADAPTIVE = "off", "off again", "adaptive"


def turn(lengths: list[int]) -> list[tuple[str, list[str]]]:
    """The settings of one turn: those that the bounds compare surround every two lengths, in
    changing order."""
    off = ["--speculation", "off"]
    bounds = [(OFF, off), (ADAPTIVE, []), (AGAIN, off)]
    settings = list(bounds)
    for i in range(0, len(lengths), 2):
        settings += [(str(n), ["--draft-length", str(n)]) for n in lengths[i:i + 2]]
        bounds = bounds[1:] + bounds[:1]
        settings += bounds
    return settings


def run_cell(args, service: Service, prompts: Path, concurrency: int) -> dict[str, list[float]]:
    """Speeds by setting, one per turn."""
    service.args.prompts = prompts
    flags = ["--max-tokens", args.max_tokens, "--temperature", args.temperature]
    service.load(flags, concurrency, 0, args.learn)  # lets the controller learn the costs
    speeds: dict[str, list[float]] = {}
    for _ in range(args.repetitions):
        runs: dict[str, list[float]] = {}
        for name, setting in turn(args.lengths):
            window = service.load([*flags, *setting], concurrency, args.warm, args.seconds)
            runs.setdefault(name, []).append(window["tokens_per_second"])
        for name, values in runs.items():
            speeds.setdefault(name, []).append(statistics.mean(values))
    return speeds


def ratio(speeds: dict[str, list[float]], over: str, under: str) -> float:
    return statistics.median(a / b for a, b in zip(speeds[over], speeds[under]))


def over_off(speeds: dict[str, list[float]]) -> float:
    """The controller's speed relative to no drafts, over all windows."""
    off = [(a + b) / 2 for a, b in zip(speeds[OFF], speeds[AGAIN])]
    return ratio({**speeds, OFF: off}, ADAPTIVE, OFF)


def draw(path: Path, cells: list[dict]) -> None:
    """Speed relative to no drafts: a dot for each fixed length, a bar for the controller."""
    width, height, left = 60 * len(cells) + 80, 320, 60
    top = max(1.2, max(ratio(c["speeds"], name, OFF) for c in cells for name in c["speeds"]) * 1.05)

    def y(times: float) -> float:
        return height - 60 - times / top * (height - 90)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif"'
             ' font-size="10">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for times in [0, 0.5, 1, 1.5, 2, 2.5, 3]:
        if times <= top:
            parts.append(f'<line x1="{left}" x2="{width}" y1="{y(times)}" y2="{y(times)}" '
                         'stroke="#ccc"/>'
                         f'<text x="30" y="{y(times) + 3}">{times}</text>')
    for i, cell in enumerate(cells):
        x = left + 60 * i + 30
        for name in cell["speeds"]:
            height_of = y(ratio(cell["speeds"], name, OFF))
            if name == ADAPTIVE:
                parts.append(f'<line x1="{x - 14}" x2="{x + 14}" y1="{height_of}" y2="{height_of}" '
                             'stroke="#c33"'
                             ' stroke-width="3"/>')
            elif name not in (OFF, AGAIN):
                parts.append(f'<circle cx="{x}" cy="{height_of}" r="3" fill="#36c"/>')
        for line, text in enumerate([cell["domain"], f'{cell["concurrency"]} at once',
                                     f'{cell["rtt_ms"]:g} ms']):
            parts.append(f'<text x="{x}" y="{height - 42 + 13 * line}" '
                         f'text-anchor="middle">{text}</text>')
    parts.append("</svg>")
    path.write_text("\n".join(parts), encoding="utf-8")


def report(cells: list[dict]) -> None:
    rows, again, adaptive, over_best = [], [], [], []
    for cell in cells:
        speeds = cell["speeds"]
        median = {name: statistics.median(values) for name, values in speeds.items()}
        best = max((name for name in speeds if name.isdigit()), key=lambda name: median[name])
        again.append(ratio(speeds, AGAIN, OFF))
        adaptive.append(over_off(speeds))
        over_best.append(ratio(speeds, ADAPTIVE, best))
        rows.append([cell["domain"], str(cell["concurrency"]), f"{cell['rtt_ms']:g}",
                     f"{median[OFF]:.0f}", f"{best}: {median[best]:.0f}", f"{median[ADAPTIVE]:.0f}",
                     f"{again[-1]:.2f}", f"{adaptive[-1]:.2f}", f"{over_best[-1]:.2f}"])
    print(table(["prompts", "at once", "round trip ms", "off", "best length", "adaptive",
                 "off again over off", "adaptive over off", "over the best length"], rows))
    print(f"\nadaptive over off: worst {min(adaptive):.3f}, mean {statistics.mean(adaptive):.3f} "
          f"(off again: worst {min(again):.3f}, best {max(again):.3f}, mean "
          f"{statistics.mean(again):.3f}); over the best fixed length: mean "
          f"{statistics.mean(over_best):.3f}")
    for concurrency, rtt in sorted({(c["concurrency"], c["rtt_ms"]) for c in cells}):
        group = [over_off(c["speeds"]) for c in cells
                 if (c["concurrency"], c["rtt_ms"]) == (concurrency, rtt)]
        print(f"  {concurrency} at once, {rtt:g} ms: {statistics.mean(group):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_flags(parser)
    parser.add_argument("--layers", type=int, default=0,
                        help="added to the target, which change nothing")
    parser.add_argument("--domains", nargs="+", default=["stories", "maths", "code", "mix"])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rtt-ms", type=float, nargs="+", default=[0, 20])
    parser.add_argument("--lengths", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--warm", type=float, default=0.4, help="seconds before each window")
    parser.add_argument("--seconds", type=float, default=1.2, help="of each window")
    parser.add_argument("--learn", type=float, default=4, help="seconds before each cell")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--cells", type=Path,
                        help="JSON of the cells measured so far; new ones are added")
    parser.add_argument("--svg", type=Path, help="draw the table into this file")
    args = parser.parse_args()

    cells = (json.loads(args.cells.read_text(encoding="utf-8"))
             if args.cells and args.cells.exists() else [])
    known = {(c["domain"], c["concurrency"], c["rtt_ms"]) for c in cells}
    with tempfile.TemporaryDirectory() as folder:
        target = deepen(args, args.target, args.layers, Path(folder))
        files = {domain: prompts_of(args, domain, Path(folder)) for domain in args.domains}
        for rtt in args.rtt_ms:
            wanted = [(d, c) for c in args.concurrency
                      for d in args.domains if (d, c, rtt) not in known]
            if not wanted:
                continue
            with Service(args, "control", target, drafter=args.drafter, rtt_ms=rtt, ahead=True,
                         flags=["--kv-tokens", 512 * max(8, *args.concurrency)]) as service:
                for domain, concurrency in wanted:
                    speeds = run_cell(args, service, files[domain], concurrency)
                    cells.append({"domain": domain, "concurrency": concurrency, "rtt_ms": rtt,
                                  "speeds": speeds})
                    progress(f"{domain}, {concurrency} at once, {rtt:g} ms: adaptive over off "
                             f"{over_off(speeds):.3f} (off again: {ratio(speeds, AGAIN, OFF):.3f})")
                    if args.cells:
                        args.cells.write_text(json.dumps(cells, indent=1), encoding="utf-8")
    print(f"`{command_line()}`\n")
    report(cells)
    if args.svg:
        draw(args.svg, cells)


if __name__ == "__main__":
    main()
