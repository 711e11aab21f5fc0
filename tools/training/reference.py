"""Writes `reference_logits.json`, which the C++ tests check themselves against.

For one short prompt per domain: the ids and, for the last position, the eight
largest logits of target and drafter, computed in float32 from the stored
weights. An 8-bit target's are there twice: rounding its activations to 8 bits makes
logits differ by some hundredths between two correct programs, so that only those
of `target_w8a16`, without it, can be compared closely. Besides, texts with the ids
that the tokenizer gives them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from export import load_folder
from tokenizer import Tokenizer

PROMPTS = {
    "stories": "Once upon a time, there was a little girl named Lily.",
    "maths": "Question: Tom has 3 apples and buys 4 more.",
    "code": "def read_lines(path):\n    with open(path) as",
}

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "Once upon a time, there was a little dog.",
    "I'm sure they'll say we've won; it's Tom's, isn't it? I'd go. You're right.",
    "SHE'LL SAY IT'S FINE",
    "1234567890",
    "12 + 345 = 357, or 3.57 x 10^2",
    "$1,250.75 (25% off)",
    "def f(x):\n    return x + 1\n",
    "class A:\n\n    def __init__(self, *args, **kwargs):\n        super().__init__()\n",
    "\tif x:\n\t\tpass",
    "line one\nline two\r\nline three\n\n\nend",
    "trailing spaces   ",
    "   leading spaces",
    "a  b   c    d",
    "caf\u00e9 na\u00efve r\u00e9sum\u00e9 \u2013 \u201cquoted\u201d",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! "
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f",
    "emoji \U0001f600\U0001f44d\U0001f3fd and \u2192 \u2260 \u221e \u00bd \u0663",
    "x=[i**2 for i in range(10)] # squares!?",
]


def top(logits: torch.Tensor) -> list[list]:
    values, ids = logits.topk(8)
    return [[i, round(v, 6)] for i, v in zip(ids.tolist(), values.tolist())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", type=Path, required=True, help="holds target/ and drafter/")
    args = parser.parse_args()

    tokenizer = Tokenizer(args.pair / "target" / "tokenizer.json")
    models = {name: load_folder(args.pair / name) for name in ("target", "drafter")}
    models["target_w8a16"] = load_folder(args.pair / "target", rounds_activations=False)
    prompts = []
    for domain, text in PROMPTS.items():
        ids = [tokenizer.eos, *tokenizer.encode(text)]
        with torch.no_grad():
            logits = {n: top(m(torch.tensor([ids]))[0, -1]) for n, m in models.items()}
        prompts.append({"domain": domain, "text": text, "ids": ids, "top_logits": logits})
    vectors = [{"text": text, "ids": tokenizer.encode(text)} for text in TEXTS]
    for vector in vectors:
        assert tokenizer.decode(vector["ids"]) == vector["text"]
    content = {
        "note": "ids of a prompt begin with <|endoftext|>; top_logits are [id, logit] of the "
        "last position, float32 from the stored weights, of target_w8a16 without rounding "
        "activations; tokenizer vectors have no special ids",
        "prompts": prompts,
        "tokenizer": vectors,
    }
    path = args.pair / "reference_logits.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {path.name}: {len(prompts)} prompts, {len(vectors)} tokenizer vectors")


if __name__ == "__main__":
    main()
