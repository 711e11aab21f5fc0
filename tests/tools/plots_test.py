"""Checks that docs/plots matches what tools/plots.py draws from docs/data, and that the data is
readable."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools"))
import plots  # noqa: E402

TABLES = sorted((SOURCE / "docs/data").glob("*.csv"))


class Plots(unittest.TestCase):
    def test_files_are_up_to_date(self):
        for name, draw in plots.PLOTS.items():
            with self.subTest(name):
                drawn = (SOURCE / f"docs/plots/{name}.svg").read_text(encoding="utf-8")
                self.assertEqual(drawn, draw(SOURCE / "docs/data"), "run tools/plots.py")

    def test_draws_its_own_repository(self):
        """Without an argument, in whatever folder it is called."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            (root / "tools").mkdir()
            shutil.copy(SOURCE / "tools/plots.py", root / "tools")
            shutil.copytree(SOURCE / "docs/data", root / "docs/data")
            subprocess.run([sys.executable, root / "tools/plots.py"], cwd="/", check=True)
            self.assertEqual({p.stem for p in (root / "docs/plots").glob("*.svg")},
                             set(plots.PLOTS))

    def test_every_file_is_drawn(self):
        self.assertEqual({p.stem for p in (SOURCE / "docs/plots").glob("*.svg")}, set(plots.PLOTS))

    def test_break_even_agrees_with_the_formula(self):
        # One free draft token, accepted half of the time, saves half a step.
        self.assertAlmostEqual(plots.break_even_round_trip(0.5, 0, 0, longest=1), 0.5)
        # The example for `outrider plan` in docs/scaling.md: 6 draft tokens, steps of 25 ms, 61.5
        # ms.
        self.assertAlmostEqual(25 * plots.break_even_round_trip(0.8, 2 / 25, 0.05 / 25, longest=6),
                               61.5, delta=0.05)


class Data(unittest.TestCase):
    def test_rows_match_header_width(self):
        self.assertGreater(len(TABLES), 20)
        for path in TABLES:
            lines = [line for line in path.read_text(encoding="utf-8").splitlines()
                     if not line.startswith("#")]
            header, *rows = csv.reader(lines)
            self.assertTrue(rows, path)
            for row in rows:
                self.assertEqual(len(row), len(header), f"{path}: {row}")

    def test_files_name_command_and_commit(self):
        for path in TABLES:
            text = path.read_text(encoding="utf-8")
            self.assertRegex(text, re.compile(r"^# command: \S", re.M), path)
            self.assertRegex(text, re.compile(r"^# recorded: .*commit [0-9a-f]{7}", re.M), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
