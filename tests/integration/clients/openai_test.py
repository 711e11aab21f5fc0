#!/usr/bin/env python3
"""OpenAI's own Python package against a running verifier: what its users call must come back as they know it.

Skipped where the package is not installed: Debian has none. http_test.cc checks the same shapes without it.

  openai_test.py SOURCE_DIR BINARY_DIR
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


# What the copying model says, before a tool has answered and after that (see tools_test.cc).
TOOL_TEMPLATE = """{#- <tool_call> <think> </think> -#}
{%- set ask = 'When someone asks, the model says this:\\n' -%}
{%- set told = 'Once the tool has answered it tells them that:\\n' -%}
{{- ask + call + ' (END) ' + told + final + ' (END) ' -}}
{{- told if messages[-1].role == 'tool' else ask -}}"""
CALL = """<think>
I should look first.
</think>

<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo", "days": [1, 2]}}
</tool_call>"""
FINAL = "It rains there all day, so take a coat."


def check_tools(client):
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
    messages = [{"role": "user", "content": "How is the weather?"}]
    asked = {"model": "copying", "tools": [tool], "temperature": 0, "max_tokens": 200, "stop": " (END)",
             "extra_body": {"chat_template_kwargs": {"call": CALL, "final": FINAL}}}
    whole = client.chat.completions.create(**asked, messages=messages)
    message = whole.choices[0].message
    assert whole.choices[0].finish_reason == "tool_calls" and message.content is None, whole
    assert message.reasoning_content == "I should look first.", whole
    [call] = message.tool_calls
    assert call.function.name == "get_weather", call
    assert json.loads(call.function.arguments) == {"city": "Oslo", "days": [1, 2]}, call
    # The client's own accumulation of a stream.
    with client.chat.completions.stream(**asked, messages=messages) as stream:
        final = stream.get_final_completion()
    [streamed] = final.choices[0].message.tool_calls
    assert final.choices[0].finish_reason == "tool_calls", final
    assert (streamed.function.name, streamed.function.arguments) == (
        call.function.name, call.function.arguments), final
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    answered = client.chat.completions.create(**asked, messages=messages)
    assert answered.choices[0].message.content == FINAL, answered
    assert answered.choices[0].finish_reason == "stop", answered


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

        copying = pathlib.Path(folder) / "copying"
        subprocess.run([binaries / "make_copying_checkpoint", copying, models / "target"], check=True)
        template = pathlib.Path(folder) / "template.jinja"
        template.write_text(TOOL_TEMPLATE)
        line = processes.start("copying", [
            binaries / "outrider-verifier", "--model", copying, "--listen", "127.0.0.1:0", "--metrics", "", "--http",
            "127.0.0.1:0", "--chat-template", template], await_line="http_port=").line
        address = "127.0.0.1:" + re.search(r"http_port=(\d+)", line).group(1)
        check_tools(openai.OpenAI(base_url=f"http://{address}/v1", api_key="any", max_retries=0))
    print(f"openai {openai.__version__}: completions, chats, tools, errors and cancellation")


if __name__ == "__main__":
    main()
