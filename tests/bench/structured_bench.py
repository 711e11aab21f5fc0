#!/usr/bin/env python3
"""Structured output: are all texts valid, what do masks cost, and what do drafts bring under them.

Texts over the schemas of tests/common/grammar/schemas.py, sampled and greedy, under several rules, with and without
drafts; every text that ended by itself is judged by jsonschema. Greedy texts with drafts must equal those without.
Figures are by rule and way: tokens/s, tokens a forward pass, the share of draft tokens that was accepted, and the share
of tokens that the grammar forced (jump-ahead); without a grammar beside them, on the same prompts.
"""
import argparse
import concurrent.futures
import http.client
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema

from bench_support import ROOT, Service, add_common_flags, command_line, free_port, progress, table, write_json

sys.path.insert(0, str(ROOT / "tests" / "common" / "grammar"))
from formats import validator  # noqa: E402
from schemas import SCHEMAS  # noqa: E402

WAYS = {"greedy": ("token", 0), "token": ("token", 1), "block": ("block", 1),
        "multipath-block": ("multipath-block", 1), "gumbel": ("gumbel", 1)}
MAX_TOKENS = 200


@dataclass
class Tally:
    texts: int = 0
    valid: int = 0
    cut: int = 0  # by max_tokens: not judged
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    forced: int = 0
    seconds: float = 0
    wrong: list = field(default_factory=list)
    contents: dict = field(default_factory=dict)


def ask(port: int, schema: dict | None, way: str, drafts: bool, seed: int) -> dict:
    rule, temperature = WAYS[way]
    speculation = {"rule": rule, "draft_length": 4, "paths": 2 if way in ("multipath-block", "gumbel") else 1}
    body = {"messages": [{"role": "user", "content": f"Write record {seed} as JSON."}], "seed": seed,
            "temperature": temperature, "max_tokens": MAX_TOKENS,
            "speculation": speculation if drafts else {"mode": "off", "rule": rule}}
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "text", "schema": schema}}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {answer}, for {schema}")
    return answer


def judge(schema: dict, text: str) -> str:
    """Why it is not valid; "": it is."""
    try:
        validator(schema).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).splitlines()[0]
    return ""


def add(tally: Tally, key, schema: dict | None, answer: dict) -> None:
    choice, usage = answer["choices"][0], answer["usage"]
    text = choice["message"]["content"]
    tally.texts += 1
    tally.tokens += usage["completion_tokens"]
    tally.contents[key] = text
    for name in ("rounds", "drafted", "accepted", "forced"):
        setattr(tally, name, getattr(tally, name) + choice["speculation"][name])
    if schema is None:
        return
    if choice["finish_reason"] != "stop":
        tally.cut += 1
        return
    why = judge(schema, text)
    tally.valid += not why
    if why:
        tally.wrong.append({"schema": schema, "text": text, "why": why})


def run(args, port: int, way: str, drafts: bool, constrained: bool) -> Tally:
    tally = Tally()
    cases = [(i, SCHEMAS[i % len(SCHEMAS)] if constrained else None) for i in range(args.texts)]
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.concurrency) as pool:
        answers = pool.map(lambda case: (case, ask(port, case[1], way, drafts, case[0])), cases)
        for (i, schema), answer in answers:
            add(tally, i, schema, answer)
    tally.seconds = time.monotonic() - begin
    return tally


def share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_flags(parser)
    parser.add_argument("--texts", type=int, default=420, help="of each way, with and without drafts")
    parser.add_argument("--concurrency", type=int, default=8)
    args = parser.parse_args()
    print(f"`{command_line()}`\n")
    tallies = {}
    port = free_port()
    with Service(args, "structured", args.target, drafter=args.drafter, flags=["--http", f"127.0.0.1:{port}"]):
        for way in WAYS:
            for constrained, drafts in [(True, True), (True, False), (False, True)]:
                tallies[way, constrained, drafts] = run(args, port, way, drafts, constrained)
                progress(f"{way}, grammar {constrained}, drafts {drafts}: done")
    rows = [[way, "yes" if constrained else "no", "yes" if drafts else "no", f"{t.valid} of {t.texts - t.cut}"
             if constrained else "-", str(t.cut) if constrained else "-", f"{t.tokens / t.seconds:.0f}",
             share(t.tokens, t.rounds), share(t.accepted, t.drafted), share(t.forced, t.tokens)]
            for (way, constrained, drafts), t in tallies.items()]
    print(table(["way", "grammar", "drafts", "valid", "cut", "tokens/s", "tokens a pass", "accepted", "forced"], rows))
    wrong = [w for t in tallies.values() for w in t.wrong]
    for case in wrong[:5]:
        print(f"\nnot valid: {case}")
    same = all(tallies[way, True, True].contents == tallies[way, True, False].contents for way in ("greedy", "gumbel"))
    print(f"\ngreedy and gumbel texts with drafts equal those without: {'yes' if same else 'NO'}")
    # A run without texts to judge, or without drafts, shows nothing.
    empty = [key for key, t in tallies.items() if key[1] and not t.valid or key[2] and not t.accepted]
    if empty:
        print(f"\nno valid text, or no accepted draft token: {empty}")
    write_json(args, {f"{way} {c} {d}": {"tokens": t.tokens, "seconds": t.seconds, "valid": t.valid, "cut": t.cut}
                      for (way, c, d), t in tallies.items()})
    return 0 if same and not wrong and not empty else 1


if __name__ == "__main__":
    sys.exit(main())
