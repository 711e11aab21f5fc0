"""Evaluates the times measured by cpu_race.py: ratios of paired turns, tables, and which ratios
have fallen since an earlier run."""
import dataclasses
import statistics

from bench_support import table
from race_cases import Case, parse_case

OURS = "Outrider"

# A smaller fall is ignored.
LEAST_FALL = 0.02

# Seconds by group (a precision, or the texts), case and engine, in the order of repetitions: per
# pass, or per token of a text.
Runs = dict[str, dict[str, dict[str, list[float]]]]


@dataclasses.dataclass(frozen=True)
class Ratio:
    median: float
    spread: float  # between the quartiles

    def __str__(self) -> str:
        return f"{self.median:.2f} ± {self.spread / 2:.2f}"


def ratio(over: list[float], under: list[float]) -> Ratio:
    """The ratio of runs of the same repetition, which the rest of the machine has disturbed
    alike."""
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    if len(ratios) == 1:
        return Ratio(ratios[0], 0)
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(middle, high - low)


def is_peer(engine: str) -> bool:
    return not engine.startswith(OURS)


def own_reference(case: Case) -> Case | None:
    """The case of the same engine to which its time can be compared on any machine."""
    if case.kind == "speculative":
        return Case("plain")
    return Case(case.kind) if case.kind in ("decode", "verify") and case.size > 1 else None


def our_ratios(runs: Runs) -> dict[str, Ratio]:
    """Ratios by name; for each, larger is better for us."""
    ratios = {}
    for group, cases in runs.items():
        for name, engines in cases.items():
            if OURS not in engines:
                continue
            for engine, seconds in engines.items():
                if is_peer(engine):
                    ratios[f"{group}, {name}, over {engine}"] = ratio(seconds, engines[OURS])
            reference = own_reference(parse_case(name))
            if reference is not None and OURS in cases.get(str(reference), {}):
                ratios[f"{group}, {name}, over our {reference}"] = ratio(
                    cases[str(reference)][OURS], engines[OURS])
    return ratios


def regressions(now: dict[str, Ratio], stored: dict[str, Ratio]) -> list[str]:
    """Ratios that have fallen by more than the spreads of both runs."""
    slower = []
    for name in now.keys() & stored.keys():
        scatter = max(stored[name].spread + now[name].spread, LEAST_FALL * stored[name].median)
        if stored[name].median - now[name].median > scatter:
            slower.append(f"{name}: {now[name]} now, {stored[name]} stored")
    return sorted(slower)


def speed_table(cases: dict[str, dict[str, list[float]]], engines: list[str]) -> str:
    """Tokens per second, and our ratio to each other engine."""
    rows = []
    for name, seconds in cases.items():
        case = parse_case(name)
        row = [name]
        for engine in engines:
            row.append(f"{case.sequences * case.rows / statistics.median(seconds[engine]):.1f}"
                       if engine in seconds else "-")
        for engine in engines:
            if is_peer(engine):
                row.append(str(ratio(seconds[engine], seconds[OURS]))
                           if {engine, OURS} <= seconds.keys() else "-")
        rows.append(row)
    return table(["tokens/s", *engines,
                  *(f"over {engine}" for engine in engines if is_peer(engine))], rows)


def cost_table(cases: dict[str, dict[str, list[float]]], engines: list[str]) -> str | None:
    """Each engine's time relative to its own time for one row."""
    rows = []
    for name, seconds in cases.items():
        case, one = parse_case(name), cases.get("verify 1", {})
        if case.kind == "verify" and case.size > 1:
            rows.append([name, *(str(ratio(seconds[engine], one[engine]))
                                 if engine in seconds and engine in one else "-"
                                 for engine in engines)])
    return table(["times one row", *engines], rows) if rows else None


def gain_table(cases: dict[str, dict[str, list[float]]], engines: list[str]) -> str | None:
    plain, speculative = cases.get("plain", {}), cases.get("speculative", {})
    both = [engine for engine in engines if engine in plain and engine in speculative]
    row = ["speculative over plain",
           *(str(ratio(plain[engine], speculative[engine])) for engine in both)]
    return table(["texts", *both], [row]) if both else None


def markdown(runs: Runs) -> str:
    parts = []
    for group, cases in runs.items():
        engines = list(dict.fromkeys(engine for seconds in cases.values() for engine in seconds))
        tables = [speed_table(cases, engines), cost_table(cases, engines),
                  gain_table(cases, engines)]
        parts += [f"{group}:", *(part for part in tables if part is not None)]
    return "\n\n".join(parts)
