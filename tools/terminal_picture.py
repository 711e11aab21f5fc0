#!/usr/bin/env python3
"""Draws docs/generate.svg, a picture of a terminal, from docs/data/generate.ansi, which was
captured from one.

  tools/terminal_picture.py [SOURCE_DIR]

The capture holds the command line that was typed, then what `script` recorded of it:

  script -qec "outrider generate ... --show-drafts" /dev/null | tr -d '\\r'

The same capture gives the same bytes, and Tools.terminal_picture checks that the file is what this
script draws.
"""

import html
import pathlib
import re
import sys

COLUMNS = 100
# pixels; a character of the usual monospaced fonts is 0.602 em wide
FONT_SIZE, ADVANCE, LINE = 14, 8.43, 19
MARGIN, TITLE_BAR = 18, 34
PAPER, BAR, INK, DIM = "#1b1f24", "#2b3138", "#d5dae0", "#8b949e"
COLOURS = {"0": INK, "32": "#4ac26b"}  # by the number in the escape sequence
CAPTION = "green: draft tokens that the target accepted"

Span = tuple[str, str]  # text and its colour


def spans(capture: str) -> list[Span]:
    """Splits a capture at its escape sequences, of which it may hold those that set a known
    colour."""
    colour, result = INK, []
    for i, part in enumerate(re.split(r"\x1b\[(\d*)m", capture)):
        if i % 2 == 1:
            colour = COLOURS[part]
        elif "\x1b" in part or "\r" in part:
            raise ValueError(f"cannot draw this control sequence: {part!r}")
        elif part:
            result.append((part, colour))
    return result


def lines(capture: str, columns: int = COLUMNS) -> list[list[Span]]:
    """Lines of at most `columns` characters, broken where a terminal breaks them."""
    result: list[list[Span]] = [[]]
    used = 0
    for text, colour in spans(capture):
        for i, piece in enumerate(text.split("\n")):
            if i > 0:
                result.append([])
                used = 0
            while piece:
                if used == columns:
                    result.append([])
                    used = 0
                head, piece = piece[:columns - used], piece[columns - used:]
                result[-1].append((head, colour))
                used += len(head)
    while result and not result[-1]:
        result.pop()
    return result


def draw(capture: str) -> str:
    rows = lines(capture)
    width = round(2 * MARGIN + COLUMNS * ADVANCE)
    height = TITLE_BAR + MARGIN + len(rows) * LINE + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 '
        f'{width} {height}"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" '
        f'font-size="{FONT_SIZE}">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
        f'<path d="M0 {TITLE_BAR}V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{TITLE_BAR - 8}z" '
        f'fill="{BAR}"/>',
        f'<text x="{MARGIN}" y="22" fill="{DIM}">{html.escape(CAPTION)}</text>',
    ]
    for i, row in enumerate(rows):
        # Every span is as wide as its characters in the grid, whatever font the viewer has.
        y, column = TITLE_BAR + MARGIN + (i + 0.7) * LINE, 0
        for text, colour in row:
            x = MARGIN + column * ADVANCE
            column += len(text)
            if text.strip():
                parts.append(f'<text x="{x:.2f}" y="{y:.1f}" fill="{colour}" '
                             f'textLength="{len(text) * ADVANCE:.2f}"'
                             f' xml:space="preserve">{html.escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    source = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1
              else pathlib.Path(__file__).resolve().parent.parent)
    capture = (source / "docs/data/generate.ansi").read_text(encoding="utf-8")
    (source / "docs/generate.svg").write_text(draw(capture), encoding="utf-8")


if __name__ == "__main__":
    main()
