"""Measures exported pairs on held-out prompts and prints the model card's table.

Shares are of prompts. `-`: there was nothing to measure.

* `word problems right`, `JSON that is right`: the greedy answer, compared with the right one.
  `JSON that parses`: as an object. `edits that are exact`, `tool calls that are exact`: the
  greedy text is the expected one, character by character.
* Functions are written greedily after signature and docstring. `functions that parse`: the
  whole source does. `functions whose doctests pass`: the docstring's examples, too (in a
  process of its own, with limits, that must reach its end).
* Stories are sampled at the given temperature. `repeated 4-grams` is the share of 4-grams
  of words that occurred before in the same story, a mean over stories. `names stay`: the one
  who is named first is named again in the second half, at most four names occur, and the last
  paragraph brings no new one.
* `bits per byte`: of the first 1,000 characters of held-out documents of the corpus, all
  bits over all bytes.
* `alpha`: the acceptance rate of a single draft token, sum_x min(p(x), q(x)), a mean over the
  positions of texts sampled from the target at the given temperature. They are cut after 128
  tokens, or a few more after the shorter of 16 prompts; an end of text is a position, what
  follows it is none.
* `accepted of 4`: the expected number of draft tokens that block verification (Sun et al.
  2024) accepts in a round of 4, a mean over rounds that begin within these texts: for 16 texts,
  at three places that they share, and at one more in each text of 3 or more tokens. With
  r_l = p(x_l) / q(x_l) on a sampled draft, l or more tokens are accepted with a probability of
  p_l = min(p_{l-1} r_l, 1). An end of text counts if it is accepted, what is drafted after it
  does not.
* `accepted of 4, mean over generated domains`: each domain counts once; the corpus does not.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import random
import re
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F

import synthesis
from data import CORPUS_DOMAINS, read_documents
from export import load_folder
from model import Llama
from sample import continue_rows
from synthesis import words
from tokenizer import TURN_END, Tokenizer

BATCH = 40
SEED = 11
CUT = 1000  # characters of a held-out document that count for bits per byte
NAMES = frozenset(words.GIRLS + words.BOYS)

# Writes the marker, its last argument, once all examples have passed. The exit status would not
# do: generated text may call sys.exit(0).
DOCTEST = """
import doctest, os, resource, sys
source, name, marker = sys.argv[1:]
del sys.argv[1:]
verdict = os.dup(1)
os.dup2(2, 1)
for limit, value in (("CPU", 2), ("FSIZE", 0), ("AS", 1 << 29), ("NPROC", 0), ("NOFILE", 8)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (value, value))
scope = {}
exec(compile(source, "<generated>", "exec"), scope)
runner = doctest.DocTestRunner(verbose=False)
for test in doctest.DocTestFinder().find(scope[name], globs=scope):
    runner.run(test, out=lambda said: None)
results = runner.summarize(verbose=False)
if results.attempted and not results.failed:
    os.write(verdict, marker.encode())
"""


class Pair:
    def __init__(self, folder: Path, device: str):
        self.name, self.device = folder.name, device
        self.target, self.drafter = (
            load_folder(folder / n).to(device) for n in ("target", "drafter")
        )
        self.tokenizer = Tokenizer(folder / "target" / "tokenizer.json")
        t = self.tokenizer
        self.ends = (t.eos, *(t.special[s] for s in (TURN_END,) if s in t.special))

    def continuations(self, prompts: list[str], most: int, temperature: float) -> list[str]:
        """What the target writes after each prompt, up to an end of text or `most` ids."""
        t, limit = self.tokenizer, self.target.c.max_positions
        openings = [[t.eos, *t.encode_chat(p)][-(limit - most) :] for p in prompts]
        order = sorted(range(len(prompts)), key=lambda n: len(openings[n]))
        texts = [""] * len(prompts)
        for at in range(0, len(order), BATCH):
            part = order[at : at + BATCH]
            chosen = [openings[n] for n in part]
            length = min(max(map(len, chosen)) + most, limit)
            rows = continue_rows(self.target, chosen, length, temperature, self.ends).tolist()
            for n, opening, row in zip(part, chosen, rows):
                ids = row[len(opening) :]
                stop = min((ids.index(e) for e in self.ends if e in ids), default=len(ids))
                texts[n] = t.decode(ids[: min(stop, most)])
        return texts


def held_out(domain: str, count: int) -> list[synthesis.Document]:
    return synthesis.held_out(domain, SEED, count)


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def fixed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(flags: list[bool]) -> str:
    return f"{100 * sum(flags) / len(flags):.0f} %" if flags else "-"


def answer_of(text: str) -> str | None:
    found = re.search(r"^Answer: *\$?(\d[\d,]*)(?![\d,./]*\d)", text, re.MULTILINE)
    return found.group(1).replace(",", "") if found else None


def maths(pair: Pair, count: int) -> dict[str, str]:
    documents = held_out("maths", count)
    texts = pair.continuations([d.prompt for d in documents], 160, 0)
    right = [answer_of(t) == str(d.facts["answer"]) for t, d in zip(texts, documents)]
    rows = {"word problems right": percent(right)}
    for steps in (1, 2, 3):
        rows[f"- of {steps} step{'s' * (steps > 1)}"] = percent(
            [r for r, d in zip(right, documents) if d.facts["steps"] == steps]
        )
    return rows


def passes(source: str, name: str) -> bool:
    marker = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = subprocess.run(
                [sys.executable, "-I", "-S", "-c", DOCTEST, source, name, marker],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=20,
                check=False,
            )
        except (subprocess.TimeoutExpired, ValueError):
            return False
    return run.stdout == marker.encode()


def functions(pair: Pair, count: int) -> dict[str, str]:
    documents = held_out("functions", count)
    texts = pair.continuations([d.prompt for d in documents], 140, 0)
    parses, right = [], []
    for text, document in zip(texts, documents):
        source = document.prompt + text
        try:
            ast.parse(source)
            parses.append(True)
        except (SyntaxError, ValueError):
            parses.append(False)
        right.append(parses[-1] and passes(source, document.facts["name"]))
    return {
        "functions that parse": percent(parses),
        "functions whose doctests pass": percent(right),
    }


def parsed(text: str):
    try:
        return json.loads(text)
    except ValueError:
        return None


def records(pair: Pair, count: int) -> dict[str, str]:
    documents = held_out("records", count)
    values = [parsed(t) for t in pair.continuations([d.prompt for d in documents], 220, 0)]
    return {
        "JSON that parses": percent([isinstance(v, dict) for v in values]),
        "JSON that is right": percent([v == d.facts["value"] for v, d in zip(values, documents)]),
    }


def edits(pair: Pair, count: int) -> dict[str, str]:
    documents = held_out("edits", count)
    texts = pair.continuations([d.prompt for d in documents], 320, 0)
    return {"edits that are exact": percent([t == d.completion for t, d in zip(texts, documents)])}


def tool_calls(pair: Pair, count: int) -> dict[str, str]:
    if len(pair.ends) == 1:
        return {"tool calls that are exact": "-"}
    documents = [d for d in held_out("chats", 6 * count) if d.facts["kind"] == "tool_chat"][:count]
    texts = pair.continuations([d.prompt for d in documents], 100, 0)
    return {
        "tool calls that are exact": percent(
            [t == d.completion.split(TURN_END)[0] for t, d in zip(texts, documents)]
        )
    }


def repeated(text: str) -> float:
    found = text.split()
    grams = [tuple(found[n : n + 4]) for n in range(len(found) - 3)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def names_stay(text: str) -> bool:
    def names(part: str) -> list[str]:
        return [w for w in re.findall(r"[A-Z][a-z]+", part) if w in NAMES]

    found, paragraphs = names(text), text.strip().split("\n\n")
    if not found or len(set(found)) > 4:
        return False
    new = set(names(paragraphs[-1])) - set(names("\n\n".join(paragraphs[:-1])))
    return found[0] in names(text[len(text) // 2 :]) and not (len(paragraphs) > 1 and new)


def stories(pair: Pair, count: int, temperature: float) -> dict[str, str]:
    # The first sentence is given, so that the old pair's stories begin alike.
    prompts = [re.match(r".*?[.!]", d.completion).group(0) for d in held_out("stories", count)]
    texts = [p + t for p, t in zip(prompts, pair.continuations(prompts, 360, temperature))]
    return {
        "repeated 4-grams of stories": f"{100 * sum(map(repeated, texts)) / len(texts):.1f} %",
        "names stay": percent([names_stay(t) for t in texts]),
    }


@torch.no_grad()
def bits_per_byte(pair: Pair, corpus: Path, documents: int) -> dict[str, str]:
    rows = {}
    for domain in CORPUS_DOMAINS:
        bits = size = 0.0
        for text in read_documents(corpus / f"{domain}.heldout.txt")[:documents]:
            text = text[:CUT]
            ids = torch.tensor([[pair.tokenizer.eos, *pair.tokenizer.encode(text)]])
            ids = ids[:, : pair.target.c.max_positions + 1].to(pair.device)
            logits = pair.target(ids[:, :-1])[0]
            bits += F.cross_entropy(logits, ids[0, 1:], reduction="sum").item() / math.log(2)
            size += len(pair.tokenizer.decode(ids[0, 1:].tolist()).encode())
        rows[f"bits per byte, {domain}"] = f"{bits / size:.3f}"
    return rows


@torch.no_grad()
def draft_ratios(pair: Pair, prefix: torch.Tensor, count: int, temperature: float) -> torch.Tensor:
    """p(x)/q(x) for `count` draft tokens after each prefix: [rows, count].

    0 for tokens after an end of text, so that they count as rejected.
    """
    cache = pair.drafter.new_cache(prefix.shape[0], prefix.shape[1] + count)
    step, drafts, q = prefix, [], []
    for _ in range(count):
        distribution = (pair.drafter.next_logits(step, cache) / temperature).softmax(-1)
        step = torch.multinomial(distribution, 1)
        drafts.append(step)
        q.append(distribution.gather(1, step))
    drafted = torch.cat(drafts, dim=1)
    logits = pair.target(torch.cat((prefix, drafted), dim=1))[:, prefix.shape[1] - 1 : -1]
    p = (logits / temperature).softmax(-1).gather(2, drafted[..., None])[..., 0]
    is_end = sum(drafted == e for e in pair.ends)
    follows_end = is_end.cumsum(1) > is_end
    return (p / torch.cat(q, dim=1)).masked_fill(follows_end, 0)


def accepted_by_block(ratios: torch.Tensor) -> torch.Tensor:
    """Expected accepted tokens of each row's draft."""
    total, p = torch.zeros(len(ratios)), torch.ones(len(ratios))
    for r in ratios.cpu().unbind(1):
        p = (p * r).clamp(max=1)
        total += p
    return total


@torch.no_grad()
def acceptance(
    pair: Pair, prompts: list[str], drafts: int, temperature: float
) -> tuple[float | None, float | None]:
    """Alpha and accepted tokens a round, after prompts of one domain; None: nothing to measure."""
    t, rng = pair.tokenizer, random.Random(SEED)
    openings = sorted(([t.eos, *t.encode_chat(p)] for p in prompts), key=len)
    overlaps, rounds = [], []
    for at in range(0, len(openings), 16):
        part = openings[at : at + 16]
        part = [o for o in part if len(o) < pair.target.c.max_positions - 140]
        if not part:
            continue
        begin = max(map(len, part))
        rows = continue_rows(pair.target, part, begin + 128, temperature)
        p, q = ((m(rows) / temperature).softmax(-1) for m in (pair.target, pair.drafter))
        overlap = torch.minimum(p, q).sum(-1)
        for row, opening, o in zip(rows.tolist(), part, overlap):
            ids = row[len(opening) :]
            stop = min((ids.index(e) for e in pair.ends if e in ids), default=len(ids) - 1)
            overlaps += o[len(opening) - 1 : len(opening) + stop].tolist()
        for start in rng.sample(range(begin, begin + 96), 3):
            live = [
                n
                for n, row in enumerate(rows.tolist())
                if not set(row[len(part[n]) : start]) & set(pair.ends)
            ]
            if live:
                ratios = draft_ratios(pair, rows[live, :start], drafts, temperature)
                rounds += accepted_by_block(ratios).tolist()
        for n, (row, opening) in enumerate(zip(rows.tolist(), part)):  # short completions, too
            ids = row[len(opening) :]
            stop = min((ids.index(e) for e in pair.ends if e in ids), default=len(ids))
            if stop > 2:
                start = len(opening) + rng.randrange(stop)
                ratios = draft_ratios(pair, rows[n : n + 1, :start], drafts, temperature)
                rounds += accepted_by_block(ratios).tolist()
    return mean(overlaps), mean(rounds)


def acceptances(pair: Pair, corpus: Path, count: int, temperature: float) -> dict[str, str]:
    prompts = {}
    for domain in synthesis.DOMAINS:
        if domain == "chats" and len(pair.ends) == 1:
            continue
        prompts[domain] = [d.prompt or d.completion[:60] for d in held_out(domain, count)]
    for domain in CORPUS_DOMAINS:
        texts = read_documents(corpus / f"{domain}.heldout.txt")[:count]
        prompts["corpus " + domain] = [t[:60] for t in texts]
    rows, means = {}, []
    for domain, given in prompts.items():
        alpha, block = acceptance(pair, given, 4, temperature)
        rows[f"alpha, accepted of 4: {domain}"] = f"{fixed(alpha, 3)}, {fixed(block, 2)}"
        if block is not None and not domain.startswith("corpus"):
            means.append(block)
    rows["accepted of 4, mean over generated domains"] = fixed(mean(means), 2)
    return rows


def measure(pair: Pair, corpus: Path, count: int, temperature: float) -> dict[str, str]:
    torch.manual_seed(7)
    rows = {
        name: f"{sum(p.numel() for p in m.parameters()):,}"
        for name, m in (
            ("target's parameters", pair.target),
            ("drafter's parameters", pair.drafter),
        )
    }
    for part in (maths, functions, records, edits, tool_calls):
        rows |= part(pair, count)
        print({k: v for k, v in list(rows.items())[2:]}, file=sys.stderr, flush=True)
    rows |= stories(pair, max(count // 3, 2), temperature)
    rows |= bits_per_byte(pair, corpus, max(count // 3, 2))
    rows |= acceptances(pair, corpus, max(count // 5, 2), temperature)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "pairs", type=Path, nargs="+", help="folders that hold target/ and drafter/"
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200, help="prompts of a domain")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    pairs = [Pair(folder, args.device) for folder in args.pairs]
    columns = [measure(pair, args.corpus, args.count, args.temperature) for pair in pairs]
    keys = list(dict.fromkeys(k for c in columns for k in c))
    print("| | " + " | ".join(p.name for p in pairs) + " |\n|---|" + "---|" * len(pairs))
    for key in keys:
        print(f"| {key} | " + " | ".join(c.get(key, "-") for c in columns) + " |")


if __name__ == "__main__":
    main()
