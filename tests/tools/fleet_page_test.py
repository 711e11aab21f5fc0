"""Checks that the figures in the text of docs/fleet.md, and those of them that docs/scaling.md
repeats, are those of the data files."""

from __future__ import annotations

import math
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools"))
import plots  # noqa: E402

DATA = SOURCE / "docs/data"


def percent(ratio: float) -> int:
    """How far a ratio is from 1."""
    return round(100 * abs(ratio - 1))


class FleetPage(unittest.TestCase):
    def expect(self, words: str, page: str = "docs/fleet.md"):
        text = (SOURCE / page).read_text(encoding="utf-8").replace("**", "")
        self.assertTrue(words in re.sub(r"\s+", " ", text), f"{page} does not say: {words}")


class Pool(FleetPage):
    def setUp(self):
        self.rows = {(row["drafter"], int(row["clients_per_verifier"]), row["layout"]): row
                     for row in plots.read_table(DATA / "fleet_pool.csv")}
        self.clients = sorted({clients for _, clients, _ in self.rows})

    def of(self, column: str, clients: int, layout: str, drafter: str = "2 ms") -> float:
        return float(self.rows[drafter, clients, layout][column])

    def over(self, clients: int, a: str, b: str, drafter: str = "2 ms") -> float:
        return (self.of("tokens_per_s", clients, a, drafter)
                / self.of("tokens_per_s", clients, b, drafter))

    def test_saturated_verifiers_gain_by_pool(self):
        ahead = [percent(self.over(n, "colocated", "split")) for n in (2, 4, 8, 16)]
        self.assertTrue(all(self.over(n, "colocated", "split") > 1 for n in (2, 4, 8, 16)))
        pool = {n: percent(self.over(n, "split", "colocated")) for n in (32, 64, 128)}
        self.assertTrue(all(self.over(n, "split", "colocated") > 1 for n in pool))
        self.expect(f"co-location is ahead by {min(ahead)} to {max(ahead)} % from 2 to 16 clients "
                    f"of a verifier, the pool by {pool[32]} % at 32, {pool[64]} % at 64 and "
                    f"{pool[128]} % at 128.")
        self.assertGreater(self.over(1, "split", "colocated"), 1)
        self.expect(f"A lone client gains {percent(self.over(1, 'split', 'colocated'))} % with the "
                    "pool")
        self.assertLess(pool[32], 3)
        self.expect(f"more tokens from 64 clients of a verifier on ({pool[64]} to {pool[128]} "
                    "%), and at 32 as many", "docs/scaling.md")

    def test_first_tokens_come_sooner(self):
        def first(clients, layout):
            return f"{self.of('first_token_p50_ms', clients, layout):.0f}"

        self.expect(f"a median of {first(16, 'split')} ms against {first(16, 'colocated')} at 16 "
                    f"clients, {first(64, 'split')} against {first(64, 'colocated')} at 64")
        for n in self.clients[1:]:
            self.assertLess(self.of("first_token_p50_ms", n, "split"),
                            self.of("first_token_p50_ms", n, "colocated"))
        self.expect(f"sooner from {self.clients[1]} clients on ({first(16, 'split')} ms instead of "
                    f"{first(16, 'colocated')} at 16)", "docs/scaling.md")

    def test_prices_are_those_of_the_runs(self):
        split, inside, plain = (tuple(f"{self.of('price_per_million', n, layout):.2f}"
                                      for n in (64, 128))
                                for layout in ("split", "colocated", "plain"))
        self.expect(f"a million tokens at 64 clients cost {split[0]} with the pool, {inside[0]} "
                    f"co-located and {plain[0]} plainly; at 128 they cost {split[1]}, {inside[1]} "
                    f"and {plain[1]}")

    def test_slow_drafters_lose_when_busy(self):
        lost = {layout: [100 * (1 - self.over(n, layout, "plain", "6 ms")) for n in self.clients
                         if n >= 16] for layout in ("split", "colocated")}
        for layout in lost:
            self.assertGreater(min(lost[layout]), -0.05)  # what rounds to 0.0
        self.expect("of 6 ms the controller finds nothing to gain from 16 clients on")
        self.expect("from 16 clients on with either", "docs/scaling.md")
        self.expect(f"cost up to {max(lost['split']):.1f} % in a minute beside a pool, and "
                    f"{min(lost['colocated']):.1f} to {max(lost['colocated']):.1f} % co-located")
        gains = [percent(self.over(8, layout, "plain", "6 ms")) for layout in lost]
        self.expect(f"At 8 clients drafts gain {gains[0]} % with the pool, {gains[1]} % co-located")


class Zones(FleetPage):
    def setUp(self):
        rows = plots.read_table(DATA / "fleet_zones.csv")
        plain = plots.over_plain(rows, ("clients_per_verifier",))
        self.speedup = {(int(row["clients_per_verifier"]), float(row["round_trip_ms"])):
                        float(row["tokens_per_s"]) / plain[row["clients_per_verifier"],]
                        for row in rows if row["lookahead"] == "on"}

    def test_near_zones_cost_little(self):
        lost = {n: percent(self.speedup[n, 2] / self.speedup[n, 0.5]) for n in (1, 16, 64)}
        self.expect(f"up to 2 ms apart, cost a lone client {lost[1]} %")
        self.expect(f"up to 2 ms apart, cost at most {max(lost.values())} %", "docs/scaling.md")
        for n in (16, 64):
            self.assertGreater(self.speedup[n, 5] / self.speedup[n, 0.5], 0.99)
        self.expect("With 16 and 64 clients of a verifier 5 ms cost less than 1 %")

    def test_next_region_has_these_speedups(self):
        farther, far, near = ([f"{self.speedup[n, trip]:.2f}" for n in (1, 16, 64)]
                              for trip in (20, 10, 0.5))
        self.expect(f"the speedup is {far[0]}, {far[1]} and {far[2]} with 1, 16 and 64 clients (at "
                    f"0.5 ms {near[0]}, {near[1]} and {near[2]}), at 20 ms {farther[0]}, "
                    f"{farther[1]} and {farther[2]}")
        busy = {trip: percent(self.speedup[64, trip]) for trip in (0.5, 10, 20, 40)}
        self.assertEqual(busy[0.5], busy[10])
        self.expect(f"drafts gain {busy[10]} % at 0.5 and at 10 ms, {busy[20]} % at 20 ms and "
                    f"{busy[40]} % at 40 ms", "docs/scaling.md")

    def test_breaks_even_where_it_says(self):
        self.expect("breaks even between 40 and 80 ms", "docs/scaling.md")
        for n in (1, 16, 64):
            self.assertGreater(self.speedup[n, 40], 1)
            self.assertLess(self.speedup[n, 80], 1.0005)
        gains = [percent(self.speedup[n, 40]) for n in (1, 16, 64)]
        self.expect(f"At 40 ms drafts still gain {gains[0]}, {gains[1]} and {gains[2]} %; at 80 ms")
        lost = max(percent(self.speedup[n, trip]) for n in (1, 16, 64) for trip in (80, 160))
        self.expect(f"its trials cost up to {lost} %")


class Update(FleetPage):
    def setUp(self):
        self.parts: dict[str, list] = {}
        for row in plots.read_table(DATA / "fleet_update.csv"):
            if int(row["begin_s"]) >= 60:
                self.parts.setdefault(row["update"], []).append(row)

    def of(self, update: str, column: str) -> list[float]:
        return [float(row[column]) for row in self.parts[update]]

    def mean(self, update: str, column: str) -> float:
        return sum(self.of(update, column)) / len(self.parts[update])

    def test_table_is_that_of_the_runs(self):
        titles = {"none": "none",
                  "verifiers": "verifiers, one at a time: 30 s to drain, 45 s to start",
                  "verifiers with surge": "verifiers, the successor first (surge)",
                  "drafters": "drafters, one at a time: 20 s to start",
                  "all drafters at once": "all drafters at once: 20 s to start"}
        self.assertEqual(set(self.parts), set(titles))
        between, first = "between_tokens_ms", "first_token_ms"
        for update, title in titles.items():
            self.expect(f"| {title} | {self.mean(update, between):.1f}, "
                        f"{max(self.of(update, between)):.1f} ms | {self.mean(update, first):.0f}, "
                        f"{max(self.of(update, first)):.0f} ms |")
            self.assertEqual(sum(self.of(update, "rejected") + self.of(update, "failed")), 0)

    def test_text_says_what_updates_cost(self):
        for column in ("between_tokens_ms", "first_token_ms"):
            self.assertLess(self.mean("drafters", column), 1.01 * self.mean("none", column))
        self.assertEqual(self.of("all drafters at once", "drafters").count(0), 2)
        slow = sorted(self.of("all drafters at once", "between_tokens_ms")[2:7])
        self.expect(f"50 s more in which a token takes {slow[0]:.0f} to {slow[-1]:.0f} ms")
        late = self.mean("verifiers", "first_token_ms") - self.mean("none", "first_token_ms")
        slower = (self.mean("verifiers", "between_tokens_ms")
                  - self.mean("none", "between_tokens_ms"))
        self.expect(f"without surge delays first tokens by {late:.0f} ms and others by "
                    f"{slower:.0f} ms")
        comment = re.search(r"^# price of a million tokens: (.*)$",
                            (DATA / "fleet_update.csv").read_text(encoding="utf-8"), re.M)[1]
        price = {name: float(value) for name, value in re.findall(r"([a-z ]+) ([\d.]+)", comment)}
        extra = percent(price[" verifiers with surge"] / price["none"])
        self.expect(f"only the successor's price, here {extra} % of the seven minutes")


class Autoscaler(FleetPage):
    def test_default_buys_no_idle_drafters(self):
        rows = {int(row["plans"]): row for row in plots.read_table(DATA / "fleet_autoscaler.csv")}
        few, many = rows[12], rows[3]

        def ratio(column):
            return float(many[column]) / float(few[column])

        self.assertLess(abs(ratio("tokens_per_s") - 1), 0.001)
        self.expect(f"it buys {float(few['drafters']):.1f} drafters. A target of 3 buys "
                    f"{float(many['drafters']):.1f}, and gains no tokens, but "
                    f"{percent(ratio('between_tokens_ms'))} % less time between them, at "
                    f"{percent(ratio('price_per_million'))} % more money", "docs/scaling.md")
        values = (SOURCE / "deploy/helm/outrider/values.yaml").read_text(encoding="utf-8")
        self.assertIn("    plans: 12\n", values)


class Validation(FleetPage):
    def test_simulation_agrees_with_processes(self):
        titles = {"plain": "none", "drafts of 4 tokens": "4 tokens",
                  "controller": "by the controller"}
        for row in plots.read_table(DATA / "fleet_validation.csv"):
            ratio = float(row["simulated_over_measured"])
            self.assertLess(abs(ratio - 1), 0.15)
            self.expect(f"| {titles[row['layout']]} | {row['clients']} | "
                        f"{row['measured_tokens_per_s']} | {row['simulated_tokens_per_s']} | "
                        f"{ratio:.2f} | {row['measured_first_token_ms']} ms | "
                        f"{row['simulated_first_token_ms']} ms |")


class Rates(FleetPage):
    def test_rates_agree_with_rounds(self):
        off = {"tokens_per_s": 0, "first_token_ms": 0, "between_tokens_ms": 0, "drafter_busy": 0}
        rows = plots.read_table(DATA / "fleet_rates.csv")
        for rounds, rates in zip(rows[::2], rows[1::2]):
            self.assertEqual([rounds["resolution"], rates["resolution"]], ["rounds", "rates"])
            self.assertEqual((rounds["verifiers"], rounds["load"]),
                             (rates["verifiers"], rates["load"]))
            for column in off:
                ratio = float(rates[column]) / float(rounds[column])
                off[column] = max(off[column], 100 * abs(ratio - 1))
        self.assertEqual(len(rows), 18)
        busy = math.ceil(off.pop("drafter_busy"))
        most = math.ceil(max(off.values()))
        self.assertLessEqual(most, 5)
        self.expect(f"within {most} % of every round in all nine, and the drafters' busy time "
                    f"within {busy} %")


class Large(FleetPage):
    def test_text_is_that_of_the_run(self):
        (row,) = plots.read_table(DATA / "fleet_large.csv")
        self.assertLess(float(row["run_cpu_s"]), 600)
        self.assertLess(float(row["peak_mb"]), 8000)
        self.expect(f"{row['run_cpu_s']} s of one core of a Zen 4 machine whose other core was "
                    f"busy and {row['peak_mb']} MB, after a fit of {row['fit_cpu_s']} s")
        self.assertGreater(float(row["verifier_busy"]), 0.999)
        self.assertEqual((row["rejected"], row["failed"]), ("0", "0"))
        self.expect(f"The fleet makes {float(row['tokens_per_s']) / 1e6:.2f} million tokens per "
                    "second, verifiers are busy all the time and drafters "
                    f"{100 * float(row['drafter_busy']):.0f} % of it, the mean first token comes "
                    f"after {float(row['first_token_ms']):.0f} ms, and nothing is refused")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
