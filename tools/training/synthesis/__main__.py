"""Prints sample documents: python3 -m synthesis --domain maths --count 3."""

from __future__ import annotations

import argparse

from . import DOMAINS, SPLITS, TRAIN, document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", choices=DOMAINS, action="append", help="all if absent")
    parser.add_argument("--split", choices=SPLITS, default=TRAIN)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2)
    args = parser.parse_args()
    for domain in args.domain or DOMAINS:
        for index in range(args.count):
            print(f"--- {domain} {index}\n{document(domain, args.split, args.seed, index).text}")


if __name__ == "__main__":
    main()
