#!/usr/bin/env python3
"""Streams a text over gRPC with the Python package, and says what the drafts brought.

    PYTHONPATH=build/cpu/python python3 examples/generate.py --prompt "Once upon a time"
"""

import argparse
import sys

from outrider import Client, GenerationParams, OutriderError


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verifier", default="127.0.0.1:7300", help="host:port")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, help="0: greedy; default: the model's own")
    arguments = parser.parse_args()

    params = GenerationParams(max_tokens=arguments.max_tokens, temperature=arguments.temperature)
    try:
        with Client(arguments.verifier) as client:
            stream = client.stream(arguments.prompt, params, timeout=600)
            for chunk in stream:
                print(chunk.text, end="", flush=True)
    except OutriderError as error:
        sys.exit(f"generate.py: {error}")
    end, drafts = stream.finished, stream.finished.speculation
    print(f"\n[{end.completion_tokens} tokens ({end.reason.value}) in {drafts.rounds} rounds; "
          f"{drafts.accepted_tokens} of {drafts.drafted_tokens} draft tokens accepted]",
          file=sys.stderr)


if __name__ == "__main__":
    main()
