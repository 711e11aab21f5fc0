#!/usr/bin/env python3
"""Structured output: whether all texts are valid, the cost of masks, and the speedup of drafts with
them.

Texts of every source of structured_texts.py (schemas, regular expressions, choices), greedy and
sampled, under several rules, with and without drafts; every text that ended by itself is validated.
Texts that depend on their seed alone (greedy, gumbel) must be the same with and without drafts.
For comparison, a third as many texts without a grammar are generated from the same prompts. Figures
are by rule and way: tokens/s and their ratio to decoding without either, tokens per forward pass,
the acceptance rate, and the fraction of tokens forced by the grammar (jump-ahead). Ways and
settings alternate, one text of each source at a time.
"""
import argparse
import sys

from bench_support import (ROOT, Service, add_common_flags, command_line, free_port, progress,
                           table, write_json)

sys.path.insert(0, str(ROOT / "tests" / "support"))
from structured_texts import SEED_STABLE, WAYS, Tally, differing, run_texts, sources  # noqa: E402


def share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def speed(tally: Tally) -> float:
    return tally.tokens / tally.seconds


def row(key, tallies: dict[tuple, Tally]) -> list[str]:
    way, constrained, drafts = key
    tally = tallies[key]
    judged = ([f"{tally.valid} of {tally.texts - tally.cut}", str(tally.cut)] if constrained
              else ["-", "-"])
    return [way, "yes" if constrained else "no", "yes" if drafts else "no", *judged,
            f"{speed(tally):.0f}", f"{speed(tally) / speed(tallies[way, False, False]):.2f}",
            share(tally.tokens, tally.rounds), share(tally.accepted, tally.drafted),
            share(tally.forced, tally.tokens)]


def run_turn(args, port: int, asked: list, tallies: dict[tuple, Tally]) -> None:
    free = [(number, None) for number, _ in asked[::3]]
    for (way, constrained, drafts), tally in tallies.items():
        run_texts(tally, port, way, drafts, asked if constrained else free, args.concurrency)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_flags(parser)
    parser.add_argument("--texts", type=int, default=420,
                        help="of each way, with and without drafts")
    parser.add_argument("--concurrency", type=int, default=8)
    args = parser.parse_args()
    print(f"`{command_line()}`\n")
    all_sources = sources()
    asked = [(i, all_sources[i % len(all_sources)]) for i in range(args.texts)]
    tallies = {(way, constrained, drafts): Tally()
               for way in WAYS for constrained in (True, False) for drafts in (True, False)}
    port = free_port()
    with Service(args, "structured", args.target, drafter=args.drafter,
                 flags=["--http", f"127.0.0.1:{port}"]):
        for begin in range(0, args.texts, len(all_sources)):
            run_turn(args, port, asked[begin:begin + len(all_sources)], tallies)
            progress(f"{min(begin + len(all_sources), args.texts)} of {args.texts} texts of each "
                     "way")
    print(table(["way", "grammar", "drafts", "valid", "cut", "tokens/s", "of plain",
                 "tokens a pass", "accepted", "forced"],
                [row(key, tallies) for key in tallies]))
    judged = [tally for (_, constrained, _), tally in tallies.items() if constrained]
    wrong = [text for tally in judged for text in tally.wrong]
    print(f"\n{sum(t.texts for t in judged)} texts of {len(all_sources)} sources: "
          f"{sum(t.valid for t in judged)} valid, {len(wrong)} not valid, "
          f"{sum(t.cut for t in judged)} cut by max_tokens")
    for text in wrong[:5]:
        print(f"\nnot valid: {text}")
    differ = [(way, constrained, number) for way in SEED_STABLE for constrained in (True, False)
              for number in differing(tallies[way, constrained, False],
                                      tallies[way, constrained, True])]
    print(f"texts of {' and '.join(SEED_STABLE)} that drafts change: {len(differ)} "
          f"{differ[:5] if differ else ''}")
    # A run without valid texts, or without drafts, shows nothing.
    empty = [key for key, t in tallies.items() if key[1] and not t.valid or key[2]
             and not t.accepted]
    if empty:
        print(f"\nno valid text, or no accepted draft token: {empty}")
    write_json(args, {" ".join(map(str, key)): {"tokens": t.tokens, "seconds": t.seconds,
                                                "valid": t.valid, "cut": t.cut,
                                                "cut_of": t.cut_of} for key, t in tallies.items()})
    return 1 if differ or wrong or empty else 0


if __name__ == "__main__":
    sys.exit(main())
