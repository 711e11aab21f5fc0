"""Shared by the two halves of the pair comparison: their flags, the random numbers that decide
which draft tokens are accepted (also in draft_coins.h), and the resulting counts for a text."""
import argparse
import dataclasses
import statistics
from pathlib import Path

MASK = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class Case:
    sessions: int
    draft: int  # tokens per round; 0: plain decoding
    acceptance: float | None = None  # None: what the models agree on

    @property
    def chance(self) -> str:
        return "own" if self.acceptance is None else f"{self.acceptance:g}"

    def line(self) -> str:
        """The line that requests one turn."""
        return f"{self.sessions} {self.draft} {self.chance}"

    def describe(self) -> dict:
        """For a report, as in pair_gpu_bench."""
        acceptance = {"acceptance": "own" if self.acceptance is None else self.acceptance}
        return {"sessions": self.sessions, "draft": self.draft,
                **(acceptance if self.draft else {})}


@dataclasses.dataclass(frozen=True)
class Counts:
    rounds: int
    drafted: int
    accepted: int


def parse_case(line: str) -> Case:
    sessions, draft, acceptance = line.split()
    return Case(int(sessions), int(draft), None if acceptance == "own" else float(acceptance))


def add_pair_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda:0", help="cpu or cuda:N")
    parser.add_argument("--shape", choices=("llama", "tiny"), default="llama")
    parser.add_argument("--target", type=Path,
                        help="a Hugging Face folder in place of a shape, with --drafter")
    parser.add_argument("--drafter", type=Path)
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--tokens", type=int, default=128, help="of each text")
    parser.add_argument("--draft", default="4",
                        help="draft tokens a round, several with commas between")
    parser.add_argument("--acceptance", default="0.6,0.8",
                        help="probability that a draft token is accepted; own: what the models "
                             "agree on")
    parser.add_argument("--sessions", default="1,8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write every figure to this file")


def pair_flags(args) -> list[str]:
    """The flags with which both halves are started."""
    flags = []
    for name in ("device", "shape", "target", "drafter", "dtype", "threads", "prompt", "tokens",
                 "draft", "acceptance", "sessions", "seed"):
        if getattr(args, name) is not None:
            flags += [f"--{name}", str(getattr(args, name))]
    return flags


def cases_of(args) -> list[Case]:
    """For each number of sessions: plain decoding, then the rest."""
    cases = []
    for sessions in map(int, args.sessions.split(",")):
        cases.append(Case(sessions, 0))
        for draft in map(int, args.draft.split(",")):
            cases += [parse_case(f"{sessions} {draft} {chance}")
                      for chance in args.acceptance.split(",")]
    return cases


def draft_token_is_accepted(seed: int, session: int, position: int, acceptance: float) -> bool:
    z = (seed * 1000003 + session) & MASK
    z = ((z << 32) + position + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53 < acceptance


def expected_counts(case: Case, tokens: int, seed: int) -> Counts:
    """The counts that the random numbers give for texts of this length, over all sessions. The last
    token is never drafted, since none would follow it."""
    rounds = all_drafted = accepted = 0
    for session in range(case.sessions):
        position = 0
        while position < tokens:
            drafted = min(case.draft, tokens - position - 1)
            accepted_now = 0
            while accepted_now < drafted and draft_token_is_accepted(
                seed, session, position + accepted_now, case.acceptance):
                accepted_now += 1
            rounds += 1
            all_drafted += drafted
            accepted += accepted_now
            position += accepted_now + 1
    return Counts(rounds, all_drafted, accepted)


def expect_counts(who: str, case: Case, figures: dict, tokens: int, seed: int) -> None:
    """Exits the program if a run did not have the expected counts."""
    got = Counts(figures["rounds"], figures["drafted"], figures["accepted"])
    if case.draft == 0:
        expected = Counts(tokens * case.sessions, 0, 0)
    elif case.acceptance is not None:
        expected = expected_counts(case, tokens, seed)
    else:
        expected = Counts(tokens * case.sessions - got.accepted, got.drafted, got.accepted)
    if got != expected or len(figures["text"]) != tokens:
        raise SystemExit(f"{who}, {case}: {got} and {len(figures['text'])} tokens, not {expected} "
                         f"and {tokens}")


def median_ratio(a: list[float], b: list[float]) -> float:
    """The median of the ratios of paired runs."""
    return statistics.median(x / y for x, y in zip(a, b))
