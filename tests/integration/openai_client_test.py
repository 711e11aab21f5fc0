#!/usr/bin/env python3
"""OpenAI's own Python package against a running verifier: what its users call must come back as they know it.

Skipped where the package is not installed: Debian has none. http_test.cc checks the same shapes without it.

  openai_client_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from processes import SKIPPED, Processes, small_pair

try:
    import openai
except ImportError:
    print("skipped: the Python package openai is not installed")
    sys.exit(SKIPPED)

PROMPT = "Once upon a time"
PATIENCE = 20  # seconds


def check_completions(client):
    asked = {"model": "target", "prompt": PROMPT, "max_tokens": 24, "temperature": 0}
    whole = client.completions.create(**asked)
    choice = whole.choices[0]
    assert choice.finish_reason in ("stop", "length") and whole.usage.completion_tokens <= 24, whole
    streamed = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(event.choices[0].text for event in streamed if event.choices) == choice.text
    assert streamed[-1].usage == whole.usage, (streamed[-1], whole.usage)
    many = client.completions.create(model="target", prompt=[PROMPT, "The sum of"], n=2, max_tokens=8, seed=3,
                                     temperature=1, logprobs=3, logit_bias={"5": -100}, presence_penalty=0.5)
    assert [c.index for c in many.choices] == [0, 1, 2, 3], many
    assert all(len(c.logprobs.tokens) == len(c.logprobs.top_logprobs) for c in many.choices), many
    stopped = client.completions.create(**{**asked, "stop": choice.text[3:6]})
    assert stopped.choices[0].text == choice.text[:3] and stopped.choices[0].finish_reason == "stop", stopped
    same = client.completions.create(**asked, extra_body={"speculation": {"mode": "off"}, "min_p": 0.01, "top_k": 50})
    assert same.choices[0].text == choice.text, "no draft changes a greedy text"


def check_chats(client):
    asked = {"model": "target", "messages": [{"role": "user", "content": PROMPT}], "max_completion_tokens": 16,
             "temperature": 0, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**asked)
    message = whole.choices[0].message
    assert message.role == "assistant" and message.content, whole
    assert len(whole.choices[0].logprobs.content) == whole.usage.completion_tokens, whole
    deltas = [event.choices[0].delta for event in client.chat.completions.create(**asked, stream=True) if event.choices]
    assert deltas[0].role == "assistant" and "".join(d.content or "" for d in deltas) == message.content, deltas


def check_errors(client, address):
    for call, kind in [
        (lambda: client.completions.create(model="other", prompt="x"), openai.NotFoundError),
        (lambda: client.completions.create(model="target", prompt="x", temperature=-1), openai.BadRequestError),
        (lambda: openai.OpenAI(base_url=f"http://{address}/v1", api_key="wrong", max_retries=0).models.list(),
         openai.AuthenticationError),
    ]:
        try:
            call()
        except kind as error:
            assert error.message and error.body["type"], error
        else:
            raise AssertionError(f"no {kind.__name__}")


def check_cancels(client, status):
    stream = client.completions.create(model="target", prompt=PROMPT, max_tokens=400, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    assert status()["sessions_running"] == 1, status()
    stream.close()
    until = time.monotonic() + PATIENCE
    while status()["sessions_running"] > 0:
        assert time.monotonic() < until, "the generation runs on"
        time.sleep(0.02)


def main():
    binaries = pathlib.Path(sys.argv[2])
    models = small_pair(binaries)
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        tokens = pathlib.Path(folder) / "tokens"
        tokens.write_text("tester secret\n")
        line = processes.start("verifier", [
            binaries / "outrider-verifier", "--model", models / "target", "--listen", "127.0.0.1:0", "--http",
            "127.0.0.1:0", "--client-tokens", tokens], await_line="http_port=").line
        port = re.search(r" port=(\d+)", line).group(1)
        address = "127.0.0.1:" + re.search(r"http_port=(\d+)", line).group(1)

        def status():
            asked = subprocess.run([binaries / "outrider", "status", "--verifier", f"127.0.0.1:{port}", "--json"],
                                   capture_output=True, check=True, env={"OUTRIDER_TOKEN": "secret"})
            return json.loads(asked.stdout)

        client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="secret", max_retries=0)
        assert [model.id for model in client.models.list()] == ["target"]
        check_completions(client)
        check_chats(client)
        check_errors(client, address)
        check_cancels(client, status)
    print(f"openai {openai.__version__}: completions, chats, errors and cancellation")


if __name__ == "__main__":
    main()
