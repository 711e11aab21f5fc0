"""Requests texts that follow a schema, a regular expression or a list of choices from a verifier
over HTTP, and checks them with independent readers: Debian's jsonschema and Python's re. Used by
structured_bench.py and by structured_texts_test.py, which ctest runs."""
import concurrent.futures
import http.client
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common" / "grammar"))
from formats import validator  # noqa: E402
from schemas import BOUNDED  # noqa: E402

WAYS = {"greedy": ("token", 0), "token": ("token", 1), "block": ("block", 1),
        "multipath-block": ("multipath-block", 1), "gumbel": ("gumbel", 1)}
# In these modes a text depends only on its seed, so drafts must not change it.
SEED_STABLE = ("greedy", "gumbel")
MAX_TOKENS = 300
# Without it, a small model repeats a digit forever where the length of a fraction is unbounded.
FREQUENCY_PENALTY = 1

REGEXES = [
    r"(Lily|Tom) had [1-9][0-9]? (dogs|cats)( and a (red|blue) ball){1,3}\.",
    r"[A-Z][a-z]{1,9}( [A-Z][a-z]{1,9}){1,4}, \d{4}-\d{2}",
    r"(?:[^\x00-\x7f]|[a-f]\w\s?){3,12}",
    r"\+?(\d{1,3}[ -]){2,4}\d{2,5}( ext\. \d+?)?",
]
CHOICES = ["yes, she was", "yes", "no, never", "né", "none of \"these\""]


@dataclass
class Source:
    fields: dict  # fields of the request's body
    judge: Callable[[str], str]  # why a text is invalid, or "" if it is valid


def is_json(schema: dict) -> Callable[[str], str]:
    schema_validator = validator(schema)

    def refuse(word: str):
        raise ValueError(f"{word} is not JSON")

    def judge(text: str) -> str:
        try:
            error = next(schema_validator.iter_errors(json.loads(text, parse_constant=refuse)),
                         None)
        except ValueError as wrong:
            return str(wrong)
        return error.message if error else ""
    return judge


def schema_source(schema: dict) -> Source:
    asked = {"type": "json_schema", "json_schema": {"name": "text", "schema": schema}}
    return Source({"response_format": asked}, is_json(schema))


def regex_source(regex: str) -> Source:
    # In the schema's dialect \d and \w are ASCII, while \s is Unicode.
    expression = re.compile(regex.replace(r"\d", "[0-9]").replace(r"\w", "[0-9A-Za-z_]"))
    return Source({"structured_outputs": {"regex": regex}},
                  lambda text: "" if expression.fullmatch(text) else f"does not match {regex}")


def sources() -> list[Source]:
    return [*map(schema_source, BOUNDED), *map(regex_source, REGEXES),
            Source({"response_format": {"type": "json_object"}}, is_json({"type": "object"})),
            Source({"structured_outputs": {"choice": CHOICES}},
                   lambda text: "" if text in CHOICES else "not a choice")]


@dataclass
class Tally:
    texts: int = 0
    valid: int = 0
    cut: int = 0  # stopped by max_tokens, hence not judged
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    forced: int = 0
    seconds: float = 0
    wrong: list = field(default_factory=list)
    contents: dict = field(default_factory=dict)  # texts by number
    cut_of: dict = field(default_factory=dict)  # number of texts that max_tokens stopped, by source

    def add(self, number: int, source: Source | None, answer: dict) -> None:
        choice = answer["choices"][0]
        text = choice["message"]["content"]
        self.texts += 1
        self.tokens += answer["usage"]["completion_tokens"]
        self.contents[number] = text
        for name in ("rounds", "drafted", "accepted", "forced"):
            setattr(self, name, getattr(self, name) + choice["speculation"][name])
        if source is None:
            return
        if choice["finish_reason"] != "stop":
            self.cut += 1
            key = json.dumps(source.fields)
            self.cut_of[key] = self.cut_of.get(key, 0) + 1
            return
        why = source.judge(text)
        self.valid += not why
        if why:
            self.wrong.append({"asked": source.fields, "text": text, "why": why})


def ask(port: int, source: Source | None, way: str, drafts: bool, seed: int) -> dict:
    rule, temperature = WAYS[way]
    speculation = {"rule": rule, "draft_length": 4,
                   "paths": 2 if way in ("multipath-block", "gumbel") else 1}
    body = {"messages": [{"role": "user", "content": f"Write record {seed} as JSON."}],
            "seed": seed, "temperature": temperature, "frequency_penalty": FREQUENCY_PENALTY,
            "max_tokens": MAX_TOKENS,
            "speculation": speculation if drafts else {"mode": "off", "rule": rule}}
    if source is not None:
        body.update(source.fields)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {answer}, for {body}")
    return answer


def run_texts(tally: Tally, port: int, way: str, drafts: bool,
              asked: list[tuple[int, Source | None]], concurrency: int) -> None:
    """Requests one text per source, several at a time. A text's number is its seed and part of its
    prompt."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        answers = pool.map(lambda case: ask(port, case[1], way, drafts, case[0]), asked)
        for (number, source), answer in zip(asked, answers):
            tally.add(number, source, answer)
    tally.seconds += time.monotonic() - begin


def differing(plain: Tally, drafted: Tally) -> list[int]:
    return [number for number, text in plain.contents.items() if drafted.contents[number] != text]
