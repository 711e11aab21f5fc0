"""Checks that docs/generate.svg matches what tools/terminal_picture.py draws from its capture."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools"))
import terminal_picture as picture  # noqa: E402

GREEN = picture.COLOURS["32"]


class TerminalPicture(unittest.TestCase):
    def test_file_is_up_to_date(self):
        capture = (SOURCE / "docs/data/generate.ansi").read_text(encoding="utf-8")
        drawn = (SOURCE / "docs/generate.svg").read_text(encoding="utf-8")
        self.assertEqual(drawn, picture.draw(capture), "run tools/terminal_picture.py")

    def test_colour_holds_until_the_next_sequence(self):
        self.assertEqual(picture.spans("a\x1b[32mb\x1b[0mc"),
                         [("a", picture.INK), ("b", GREEN), ("c", picture.INK)])

    def test_breaks_lines_at_the_last_column(self):
        self.assertEqual(picture.lines("ab\x1b[32mcde\nf\n", columns=3),
                         [[("ab", picture.INK), ("c", GREEN)], [("de", GREEN)], [("f", GREEN)]])

    def test_refuses_other_sequences(self):
        for capture in ("\x1b[2J", "a\rb"):
            with self.assertRaises(ValueError):
                picture.lines(capture)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
