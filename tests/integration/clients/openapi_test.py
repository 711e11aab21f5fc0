#!/usr/bin/env python3
"""The answers of a running pair match the schemas of its openapi.json and have no
undocumented members.

  openapi_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import sys
import tempfile
import urllib.error
import urllib.request

from processes import SKIPPED, TIME_LIMIT, Processes, small_pair
from serving import DRAFTED, TOOL_CHAT, ServedPair, copying_model

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(SKIPPED)

MESSAGES = [{"role": "user", "content": "Tell me a story"}]
# Path, body (None for a GET request) and expected status code.
REQUESTS = [
    ("/v1/models", None, 200),
    ("/v1/models/target", None, 200),
    ("/v1/models/other", None, 404),
    ("/version", None, 200),
    ("/health", None, 200),
    ("/ping", None, 200),
    ("/openapi.json", None, 200),
    ("/tokenize", {"prompt": "Once", "return_token_strs": True}, 200),
    ("/tokenize", {"messages": MESSAGES}, 200),
    ("/detokenize", {"tokens": [5, 6]}, 200),
    ("/detokenize", {"tokens": [-1]}, 400),
    ("/v1/completions", {"prompt": "Once", **DRAFTED, "max_tokens": 64}, 200),
    ("/v1/completions", {"prompt": ["Once", "Twice"], "n": 2, "echo": True, "logprobs": 3}, 200),
    ("/v1/completions", {"prompt": "Once", "logprobs": 0, "prompt_logprobs": 2}, 200),
    ("/v1/completions", {"prompt": "Once", "max_tokens": 0}, 400),
    ("/v1/chat/completions",
     {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2, **DRAFTED, "max_tokens": 64}, 200),
    ("/v1/chat/completions", {"messages": MESSAGES, "prompt_logprobs": 1, "max_tokens": 4}, 200),
    ("/v1/chat/completions", {"messages": []}, 400),
]
CALLS = [("/v1/chat/completions", {"messages": MESSAGES, **TOOL_CHAT}, 200)]


def ask(address, path, body):
    """The status code and the JSON body of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{address}{path}", data,
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIME_LIMIT) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def closed(schema):
    """The schema, changed so that objects may have only the members that it lists."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return {**more, **{key: closed(value) for key, value in schema.items()}}


def schema_of(document, path, body, code):
    template = "/v1/models/{model}" if path.startswith("/v1/models/") else path
    responses = document["paths"][template]["get" if body is None else "post"]["responses"]
    response = responses.get(str(code), responses["default"])
    return {**closed(response["content"]["application/json"]["schema"]),
            "components": closed(document["components"])}


def check(address, requests):
    _, document = ask(address, "/openapi.json", None)
    for path, body, expected in requests:
        code, answer = ask(address, path, body)
        assert code == expected, (path, body, code, answer)
        jsonschema.Draft202012Validator(schema_of(document, path, body, code)).validate(answer)
        if body is not None and code == 200:
            content = document["paths"][path]["post"]["requestBody"]["content"]
            asked = content["application/json"]["schema"]
            jsonschema.Draft202012Validator(asked).validate(body)


def main():
    binaries = pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        check(ServedPair(processes, binaries, small_pair(binaries)).http, REQUESTS)
        address = copying_model(processes, binaries, pathlib.Path(folder))
        check(address, CALLS)
        _, answer = ask(address, *CALLS[0][:2])
        assert answer["choices"][0]["message"].keys() >= {"tool_calls", "reasoning_content"}, answer
    print(f"{len(REQUESTS) + len(CALLS)} answers are as openapi.json tells")


if __name__ == "__main__":
    main()
