#!/usr/bin/env python3
"""A text that follows a JSON Schema, and one that is one of several choices.

    PYTHONPATH=build/cpu/python python3 examples/structured_output.py

Whatever the model is, the text parses; what it says is the model's.
"""

import argparse
import json

from outrider import Client, GenerationParams, StructuredOutput

# Everything is bounded, so that a model that was never trained on JSON comes to an end.
PET = {
    "type": "object",
    "required": ["name", "kind", "age", "friends"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "kind": {"enum": ["cat", "dog", "owl"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 20},
        "friends": {"type": "array", "maxItems": 2, "items": {"enum": ["Tom", "Lily", "Ben"]}},
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verifier", default="127.0.0.1:7300", help="host:port")
    with Client(parser.parse_args().verifier) as client:
        pet = client.generate("Lily has a pet.", GenerationParams(
            max_tokens=200, seed=1, structured_output=StructuredOutput(json_schema=PET)))
        print(json.dumps(json.loads(pet.text)))
        answer = client.generate("Was Lily happy?", GenerationParams(
            max_tokens=20, seed=1, structured_output=StructuredOutput(choice=["yes", "no"])))
        print(answer.text)


if __name__ == "__main__":
    main()
