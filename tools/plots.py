#!/usr/bin/env python3
"""Draws the plots of docs/plots from the measurements in docs/data, and from formulas.

  tools/plots.py [SOURCE_DIR]

Needs Python's standard library alone. The same data give the same bytes, and Tools.plots checks
that the files in docs/plots are what this script draws.
"""

import csv
import html
import pathlib
import sys

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK, GRID, PAPER = "#222222", "#dddddd", "#ffffff"


def read_table(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a data file. Lines that begin with # say where its figures come from."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines()
             if not line.startswith("#")]
    return list(csv.DictReader(lines))


class Panel:
    """One pair of axes. Points are given in data units; `x_of` and `y_of` turn them into pixels."""

    def __init__(self, left: int, top: int, width: int, height: int, x_range: tuple,
                 y_range: tuple):
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x_range, self.y_range = x_range, y_range
        self.parts: list[str] = []

    def x_of(self, x: float) -> float:
        low, high = self.x_range
        return self.left + (x - low) / (high - low) * self.width

    def y_of(self, y: float) -> float:
        low, high = self.y_range
        return self.top + self.height - (y - low) / (high - low) * self.height

    def text(self, x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" '
                          f'text-anchor="{anchor}"{more}>'
                          f"{html.escape(words)}</text>")

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> None:
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}"{more}/>')

    def axes(self, title: str, x_label: str, y_label: str, x_ticks: list, y_ticks: list) -> None:
        """`x_ticks` and `y_ticks` are pairs of a value and its words."""
        bottom, right = self.top + self.height, self.left + self.width
        for value, words in y_ticks:
            self.line(self.left, self.y_of(value), right, self.y_of(value), GRID)
            self.text(self.left - 6, self.y_of(value) + 4, words, "end")
        for value, words in x_ticks:
            self.line(self.x_of(value), bottom, self.x_of(value), bottom + 4, INK)
            for i, part in enumerate(words.split("\n")):
                self.text(self.x_of(value), bottom + 18 + 14 * i, part)
        self.line(self.left, bottom, right, bottom, INK)
        self.line(self.left, self.top, self.left, bottom, INK)
        self.text(self.left + self.width / 2, self.top - 12, title, more=' font-weight="bold"')
        self.text(self.left + self.width / 2,
                  bottom + 24 + 14 * max(1, x_ticks[0][1].count("\n") + 1), x_label)
        middle = self.top + self.height / 2
        self.text(self.left - 42, middle, y_label,
                  more=f' transform="rotate(-90 {self.left - 42:.1f} {middle:.1f})"')

    def level(self, y: float, words: str) -> None:
        """A dashed line right across, for what the others are compared with."""
        self.line(self.left, self.y_of(y), self.left + self.width, self.y_of(y), INK,
                  ' stroke-dasharray="5 4"')
        self.text(self.left + self.width - 4, self.y_of(y) - 5, words, "end")

    def curve(self, points: list, colour: str, dots: bool = True, dash: str = "") -> None:
        path = " ".join(f"{self.x_of(x):.1f},{self.y_of(y):.1f}" for x, y in points)
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                          f'stroke-width="2"{style}/>')
        if dots:
            self.dots(points, colour)

    def dots(self, points: list, colour: str) -> None:
        for x, y in points:
            self.parts.append(f'<circle cx="{self.x_of(x):.1f}" cy="{self.y_of(y):.1f}" r="4" '
                              f'fill="{colour}"/>')

    def legend(self, x: float, y: float, entries: list) -> None:
        """`entries` are pairs of words and a colour, one below the other."""
        for i, (words, colour) in enumerate(entries):
            self.line(x, y + 18 * i, x + 20, y + 18 * i, colour, ' stroke-width="3"')
            self.text(x + 26, y + 18 * i + 4, words, "start")


def picture(width: int, height: int, panels: list[Panel]) -> str:
    """A whole file. The background is drawn, so that it can be read on a dark page too."""
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">')
    paper = f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
    return "\n".join([head, paper, *(part for panel in panels for part in panel.parts), "</svg>",
                      ""])


def ticks(values: list, words: str = "{:g}") -> list:
    return [(value, words.format(value)) for value in values]


def draw_round_trip(data: pathlib.Path) -> str:
    """Speed over plain decoding by the round trip that was added, for one request and for 16."""
    rows = [row for row in read_table(data / "added_round_trip.csv") if row["target"] == "deep"]
    lines = (("on, ahead", "drafter over the network", COLOURS[0]),
             ("co-located", "co-located drafter", COLOURS[1]))
    panels = []
    for i, (concurrency, title) in enumerate((("1", "1 request at a time"),
                                              ("16", "16 requests at once"))):
        panel = Panel(70 + 390 * i, 40, 290, 220, (0, 50), (0, 2.5))
        panel.axes(title, "added round trip, ms", "speed over plain decoding",
                   ticks([0, 5, 20, 50]), ticks([0, 0.5, 1, 1.5, 2, 2.5]))
        panel.level(1, "plain decoding")
        for setting, _, colour in lines:
            panel.curve([(float(row["added_round_trip_ms"]), float(row["over_plain"]))
                         for row in rows
                         if row["speculation"] == setting and row["concurrency"] == concurrency],
                        colour)
        panels.append(panel)
    panels[1].legend(570, 56, [(words, colour) for _, words, colour in lines])
    return picture(780, 320, panels)


def draw_rules(data: pathlib.Path) -> str:
    """Tokens per round by the number of draft sequences, for each verification rule."""
    rows = [row for row in read_table(data / "rules.csv") if row["draft_length"] == "8"]
    at = {"1": 0, "2": 1, "4": 2, "8": 3}
    panel = Panel(70, 40, 400, 260, (-0.2, 3.2), (3.5, 5))
    panel.axes("drafts of 8 tokens", "draft sequences", "tokens per round",
               [(x, words) for words, x in at.items()], ticks([3.5, 4, 4.5, 5]))
    names = ("multipath-block", "spectr", "multiround", "gumbel", "block", "token")
    for name, colour in zip(names, COLOURS):
        points = [(at[row["draft_sequences"]], float(row["tokens_per_round"]))
                  for row in rows if row["rule"] == name]
        panel.curve(points, colour)
    panel.legend(490, 60, list(zip(names, COLOURS)))
    return picture(640, 360, [panel])


def draw_controller(data: pathlib.Path) -> str:
    """Speed over plain decoding of `adaptive` and of the best fixed draft length, cell by cell."""
    rows = read_table(data / "controller_deep.csv")
    panel = Panel(70, 40, 60 * len(rows), 220, (-0.5, len(rows) - 0.5), (0, 2))
    labels = [(i, f'{row["prompts"]}\n{row["concurrency"]}\n{row["round_trip_ms"]} ms')
              for i, row in enumerate(rows)]
    panel.axes("target of 6 ms a token", "prompts, requests at once, round trip",
               "speed over plain decoding", labels, ticks([0, 0.5, 1, 1.5, 2]))
    panel.level(1, "")
    plain = [float(row["plain_tokens_per_s"]) for row in rows]
    panel.dots([(i, float(row["best_length_tokens_per_s"]) / plain[i])
                for i, row in enumerate(rows)], COLOURS[0])
    panel.dots([(i, float(row["adaptive_over_plain"])) for i, row in enumerate(rows)], COLOURS[1])
    panel.legend(600, 56, [("best fixed draft length", COLOURS[0]), ("adaptive", COLOURS[1])])
    return picture(60 * len(rows) + 100, 350, [panel])


def draw_policies(data: pathlib.Path) -> str:
    """Time over that of the best fixed arm, by simulated scenario, for each policy."""
    rows = read_table(data / "policies.csv")
    panel = Panel(250, 40, 400, 20 * len(rows), (0.6, 2.6), (-0.5, len(rows) - 0.5))
    names = {"ucbspec_512": "ucbspec", "exp3spec_512": "exp3spec", "ucb_tuned_512": "ucb-tuned",
             "adaptive_512": "adaptive"}
    labels = [(len(rows) - 1 - i, row["scenario"]) for i, row in enumerate(rows)]
    panel.axes("512 tokens a request", "time over the best fixed arm's (beyond 2.5: at the edge)",
               "", ticks([0.75, 1, 1.25, 1.5, 1.75, 2, 2.25, 2.5]), labels)
    panel.line(panel.x_of(1), panel.top, panel.x_of(1), panel.top + panel.height, INK,
               ' stroke-dasharray="5 4"')
    for name, colour in zip(names, (*COLOURS[1:4], COLOURS[0])):
        panel.dots([(min(float(row[name]), 2.55), at) for row, (at, _) in zip(rows, labels)],
                   colour)
    panel.legend(560, 56, list(zip(names.values(), (*COLOURS[1:4], COLOURS[0]))))
    return picture(680, 20 * len(rows) + 110, [panel])


def tokens_per_round(acceptance: float, length: int) -> float:
    """Leviathan et al. 2023, equation 1: accepted draft tokens and one more."""
    return sum(acceptance ** i for i in range(length + 1))


def break_even_round_trip(acceptance: float, draft_step: float, row: float,
                          longest: int = 8) -> float:
    """The longest round trip at which a round of the best draft length is not slower than plain
    decoding.

    All times are in steps of plain decoding: `draft_step` is one step of the drafter, `row` what
    each further row adds to a step of the target. Negative where no length pays even without a
    network.
    """
    return max(tokens_per_round(acceptance, g) - 1 - g * (row + draft_step)
               for g in range(1, longest + 1))


def draw_break_even(_: pathlib.Path) -> str:
    panels = []
    steps = ((0.02, COLOURS[0]), (0.1, COLOURS[1]), (0.3, COLOURS[2]))
    cases = ((0.02, "a further row costs 2 % of a step"),
             (0.25, "a further row costs 25 % of a step"))
    for i, (row, title) in enumerate(cases):
        panel = Panel(70 + 390 * i, 40, 290, 240, (0.3, 0.9), (0, 5))
        panel.axes(title, "acceptance a", "break-even round trip r, in plain steps",
                   ticks([0.3, 0.5, 0.7, 0.9]), ticks([0, 1, 2, 3, 4, 5]))
        for draft_step, colour in steps:
            points = [(n / 100, break_even_round_trip(n / 100, draft_step, row))
                      for n in range(30, 91)]
            panel.curve([(a, r) for a, r in points if r >= 0], colour, dots=False)
        panels.append(panel)
    panels[0].legend(86, 56, [(f"draft step c = {step:g}", colour) for step, colour in steps])
    return picture(780, 340, panels)


def over_plain(rows: list[dict[str, str]], keys: tuple[str, ...]) -> dict[tuple, float]:
    """Tokens per second of plain decoding, by the columns that it depends on."""
    return {tuple(row[key] for key in keys): float(row["tokens_per_s"]) for row in rows
            if "plain" in (row.get("layout"), row.get("lookahead"))}


def draw_fleet_pool(data: pathlib.Path) -> str:
    """Simulated speed over plain decoding by the clients of a verifier, with drafters as services
    and inside."""
    rows = read_table(data / "fleet_pool.csv")
    plain = over_plain(rows, ("drafter", "clients_per_verifier"))
    clients = sorted({int(row["clients_per_verifier"]) for row in rows})
    at = {str(n): i for i, n in enumerate(clients)}
    lines = (("split", "drafters as services", COLOURS[0]),
             ("colocated", "co-located drafters", COLOURS[1]))
    panels = []
    for i, (drafter, title) in enumerate((("2 ms", "drafter of 2 ms a depth"),
                                          ("6 ms", "drafter of 6 ms a depth"))):
        panel = Panel(70 + 390 * i, 40, 290, 240, (0, len(clients) - 1), (0, 3))
        panel.axes(title, "clients of each verifier", "speed over plain decoding",
                   [(at[str(n)], str(n)) for n in clients], ticks([0, 0.5, 1, 1.5, 2, 2.5, 3]))
        panel.level(1, "plain decoding")
        for layout, _, colour in lines:
            panel.curve([(at[row["clients_per_verifier"]],
                          float(row["tokens_per_s"]) / plain[drafter, row["clients_per_verifier"]])
                         for row in rows if row["drafter"] == drafter and row["layout"] == layout],
                        colour)
        panels.append(panel)
    panels[1].legend(570, 56, [(words, colour) for _, words, colour in lines])
    return picture(780, 340, panels)


def draw_fleet_zones(data: pathlib.Path) -> str:
    """Simulated speed over plain decoding by the round trip, for several loads."""
    rows = read_table(data / "fleet_zones.csv")
    plain = over_plain(rows, ("clients_per_verifier",))
    trips = sorted({float(row["round_trip_ms"]) for row in rows if row["lookahead"] == "on"})
    at = {trip: i for i, trip in enumerate(trips)}
    panel = Panel(70, 40, 420, 240, (0, len(trips) - 1), (0.8, 2.8))
    panel.axes("verifier of 25 ms, drafter of 2 ms a depth", "round trip, ms",
               "speed over plain decoding",
               [(at[trip], f"{trip:g}") for trip in trips], ticks([1, 1.5, 2, 2.5]))
    panel.level(1, "plain decoding")
    lines = (("1", "1 client a verifier", COLOURS[0]), ("16", "16 clients", COLOURS[1]),
             ("64", "64 clients", COLOURS[2]))
    for clients, _, colour in lines:
        panel.curve([(at[float(row["round_trip_ms"])], float(row["tokens_per_s"])
                      / plain[(clients,)]) for row in rows
                     if row["clients_per_verifier"] == clients and row["lookahead"] == "on"],
                    colour)
    panel.legend(340, 60, [(words, colour) for _, words, colour in lines])
    return picture(540, 340, [panel])


def draw_fleet_update(data: pathlib.Path) -> str:
    """Simulated latency during rolling updates."""
    rows = read_table(data / "fleet_update.csv")
    lines = (("verifiers", COLOURS[1]), ("verifiers with surge", COLOURS[2]),
             ("drafters", COLOURS[0]), ("all drafters at once", COLOURS[3]))
    panels = []
    for i, (column, title, top, values) in enumerate((
            ("between_tokens_ms", "mean time between tokens, ms", 30, [0, 10, 20, 30]),
            ("first_token_ms", "mean time to the first token, ms", 250,
             [0, 50, 100, 150, 200, 250]))):
        panel = Panel(70 + 390 * i, 40, 290, 240, (0, 420), (0, top))
        panel.axes(title, "seconds; updates begin at 60", "", ticks([0, 60, 120, 240, 360]),
                   ticks(values))
        for update, colour in lines:
            panel.curve([(float(row["begin_s"]) + 5, min(float(row[column]), top)) for row in rows
                         if row["update"] == update and row[column]], colour, dots=False)
        panels.append(panel)
    panels[0].legend(86, 200, list(lines))
    return picture(780, 340, panels)


PLOTS = {"break_even": draw_break_even, "controller": draw_controller,
         "fleet_pool": draw_fleet_pool, "fleet_update": draw_fleet_update,
         "fleet_zones": draw_fleet_zones, "policies": draw_policies,
         "round_trip": draw_round_trip, "rules": draw_rules}


def main() -> None:
    source = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1
              else pathlib.Path(__file__).resolve().parent.parent)
    for name, draw in PLOTS.items():
        (source / "docs/plots").mkdir(exist_ok=True)
        (source / f"docs/plots/{name}.svg").write_text(draw(source / "docs/data"), encoding="utf-8")


if __name__ == "__main__":
    main()
