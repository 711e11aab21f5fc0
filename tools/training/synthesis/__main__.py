"""Prints sample documents, or held-out prompts as `outrider bench` reads them:

python3 -m synthesis --domain maths --count 3
python3 -m synthesis --prompts --seed 31 --count 10 > models/default/prompts.jsonl
"""

from __future__ import annotations

import argparse
import json
import re

from . import DOMAINS, HELD_OUT, SPLITS, TRAIN, document

# Domains whose prompts are plain text, and the most tokens that an answer of theirs takes.
PROMPTED = {"stories": 240, "maths": 160, "functions": 140, "records": 220, "edits": 240}


def prompt_line(domain: str, seed: int, index: int) -> str:
    found = document(domain, HELD_OUT, seed, index)
    # Of a story the first sentence is given.
    prompt = found.prompt or re.match(r".*?[.!]", found.completion).group(0)
    return json.dumps({"domain": domain, "prompt": prompt, "max_tokens": PROMPTED[domain]})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domain", choices=DOMAINS, action="append", help="all if absent")
    parser.add_argument("--split", choices=SPLITS, default=TRAIN)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2, help="of each domain")
    parser.add_argument("--prompts", action="store_true", help="held-out prompts as JSON lines")
    args = parser.parse_args()
    if args.prompts:
        for domain in PROMPTED:
            for index in range(args.count):
                print(prompt_line(domain, args.seed, index))
        return
    for domain in args.domain or DOMAINS:
        for index in range(args.count):
            print(f"--- {domain} {index}\n{document(domain, args.split, args.seed, index).text}")


if __name__ == "__main__":
    main()
