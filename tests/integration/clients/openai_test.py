#!/usr/bin/env python3
"""OpenAI's own Python package against a running pair: its calls return what its users expect.

http_test.cc checks the same shapes without the package.

  openai_test.py SOURCE_DIR BINARY_DIR
"""

import asyncio
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Literal, Optional

from packages import need_packages, version
from processes import TIME_LIMIT, Processes, small_pair
from serving import DRAFTED, FINAL, TOOL_CHAT, ServedPair, copying_model

need_packages("openai")
import openai  # noqa: E402
import pydantic  # noqa: E402

PROMPT = "Once upon a time"


def check_models(client):
    assert [model.id for model in client.models.list()] == ["target"]
    model = client.models.retrieve("target")
    assert model.id == "target" and model.object == "model" and model.owned_by == "outrider", model


def check_completions(client):
    asked = {"model": "target", "prompt": PROMPT, "max_tokens": 24, "temperature": 0}
    whole = client.completions.create(**asked)
    choice = whole.choices[0]
    assert choice.finish_reason in ("stop", "length") and whole.usage.completion_tokens <= 24, whole
    streamed = list(client.completions.create(**asked, stream=True,
                                              stream_options={"include_usage": True}))
    assert "".join(event.choices[0].text for event in streamed if event.choices) == choice.text
    assert streamed[-1].usage.completion_tokens == whole.usage.completion_tokens, (
        streamed[-1], whole.usage)
    many = client.completions.create(model="target", prompt=[PROMPT, "The sum of"], n=2,
                                     max_tokens=8, seed=3, temperature=1, logprobs=3,
                                     logit_bias={"5": -100}, presence_penalty=0.5)
    assert [c.index for c in many.choices] == [0, 1, 2, 3], many
    assert all(len(c.logprobs.tokens) == len(c.logprobs.top_logprobs) for c in many.choices), many
    stop = choice.text[3:6]
    stopped = client.completions.create(**{**asked, "stop": stop})
    assert stopped.choices[0].text == choice.text.split(stop)[0], stopped
    assert stopped.choices[0].finish_reason == "stop", stopped
    drafted = client.completions.create(**{**asked, "max_tokens": 64},
                                        extra_body={"speculation": {"draft_length": 4}})
    plain = client.completions.create(**{**asked, "max_tokens": 64},
                                      extra_body={"speculation": {"mode": "off"}})
    assert plain.choices[0].text == drafted.choices[0].text, "no draft changes a greedy text"
    seeded = client.completions.create(model="target", prompt=PROMPT, max_tokens=64,
                                       extra_body=DRAFTED)
    assert seeded.usage.completion_tokens_details.accepted_prediction_tokens > 0, seeded.usage
    raw = client.completions.with_raw_response.create(**asked,
                                                      extra_headers={"x-request-id": "a-1"})
    assert raw.headers["x-request-id"] == "a-1", raw.headers
    assert raw.parse().choices[0].text == choice.text, raw.headers


def check_echo(client):
    echoed = client.completions.create(model="target", prompt=PROMPT, max_tokens=2, temperature=0,
                                       logprobs=1, echo=True)
    told = echoed.choices[0].logprobs
    assert echoed.choices[0].text.startswith(PROMPT) and told.token_logprobs[0] is None, echoed
    assert len(told.tokens) == echoed.usage.total_tokens, echoed
    assert all(logprob <= 0 for logprob in told.token_logprobs[1:]), echoed


def check_chats(client):
    asked = {"model": "target", "messages": [{"role": "user", "content": PROMPT}],
             "max_completion_tokens": 16, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**asked)
    message = whole.choices[0].message
    assert message.role == "assistant" and message.content, whole
    told = whole.choices[0].logprobs.content
    assert len(told) == whole.usage.completion_tokens, whole
    assert all(entry.top_logprobs[0].token == entry.token
               for entry in told), "greedy is the most likely"
    streamed = [event.choices[0] for event in client.chat.completions.create(**asked, stream=True)
                if event.choices]
    assert streamed[0].delta.role == "assistant", streamed[0]
    assert "".join(choice.delta.content or "" for choice in streamed) == message.content, streamed
    streamed_logprobs = [entry for choice in streamed if choice.logprobs
                         for entry in choice.logprobs.content]
    assert [e.token for e in streamed_logprobs] == [e.token for e in told], streamed_logprobs
    many = client.chat.completions.create(**{**asked, "temperature": 1}, n=3, seed=5)
    assert [choice.index for choice in many.choices] == [0, 1, 2], many


async def check_async_client(address):
    async with openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="secret",
                                  max_retries=0) as client:
        asked = {"model": "target", "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
        wholes = await asyncio.gather(*(client.completions.create(**asked) for _ in range(8)))
        texts = {whole.choices[0].text for whole in wholes}
        stream = await client.completions.create(**asked, stream=True)
        streamed = "".join([event.choices[0].text async for event in stream])
        assert texts == {streamed}, (texts, streamed)


class Wind(pydantic.BaseModel):
    strong: bool
    knots: Literal[5, 10, 20]


class Weather(pydantic.BaseModel):
    """Bounded, so that a text ends."""
    city: Literal["Oslo", "Rome"]
    kinds: list[Literal["rain", "sun"]] = pydantic.Field(max_length=2)
    wind: Optional[Wind]


def check_parsed_answers(client):
    asked = {"model": "target", "messages": [{"role": "user", "content": "How is the weather?"}],
             "response_format": Weather, "max_tokens": 200}
    for seed in range(4):
        drafted = {**DRAFTED, "seed": seed}
        parsed = client.chat.completions.parse(**asked, extra_body=drafted)
        assert parsed.choices[0].finish_reason == "stop", parsed
        assert isinstance(parsed.choices[0].message.parsed, Weather), parsed
        with client.chat.completions.stream(**asked, extra_body=drafted) as stream:
            final = stream.get_final_completion()
        assert isinstance(final.choices[0].message.parsed, Weather), final


def whole_answer(client, **asked):
    completion = client.chat.completions.create(**asked)
    assert completion.usage.completion_tokens > 0, completion
    return completion


def streamed_answer(client, **asked):
    """The final completion, accumulated from a stream by the client itself."""
    with client.chat.completions.stream(**asked) as stream:
        return stream.get_final_completion()


def check_tools(client, answer):
    """Checks a tool call, then the final answer after the tool's result."""
    messages = [{"role": "user", "content": "How is the weather?"}]
    asked = {"model": "copying", **TOOL_CHAT}
    asked["extra_body"] = {"chat_template_kwargs": asked.pop("chat_template_kwargs")}
    [choice] = answer(client, **asked, messages=messages).choices
    message = choice.message
    assert choice.finish_reason == "tool_calls" and not message.content, choice
    assert message.reasoning_content == "I should look first.", message
    [call] = message.tool_calls
    assert call.function.name == "get_weather" and call.id and call.type == "function", call
    assert json.loads(call.function.arguments) == {"city": "Oslo", "days": [1, 2]}, call
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    [choice] = answer(client, **asked, messages=messages).choices
    assert choice.message.content == FINAL and choice.finish_reason == "stop", choice


def check_errors(client, address):
    other = openai.OpenAI(base_url=f"http://{address}/v1", api_key="wrong", max_retries=0)
    chat = {"model": "target", "messages": [{"role": "user", "content": "x"}]}
    for call, kind, field in [
        (lambda: client.completions.create(model="other", prompt="x"), openai.NotFoundError,
         "model"),
        (lambda: client.models.retrieve("other"), openai.NotFoundError, "model"),
        (lambda: client.completions.create(model="target", prompt="x", temperature=-1),
         openai.BadRequestError, "temperature"),
        (lambda: client.completions.create(model="target", prompt="x " * 5000),
         openai.BadRequestError, "prompt"),
        (lambda: client.chat.completions.create(**chat, modalities=["audio"]),
         openai.BadRequestError, "modalities"),
        (lambda: client.completions.create(model="target", prompt="x", stream=True,
                                           extra_body={"nonsense": 1}),
         openai.BadRequestError, "nonsense"),
        (lambda: client.embeddings.create(model="target", input="x"), openai.NotFoundError, None),
        (other.models.list, openai.AuthenticationError, None),
    ]:
        try:
            call()
        except kind as error:
            assert error.message and error.type and error.param == field, (field, error)
        else:
            raise AssertionError(f"no {kind.__name__} of {field}")


def check_cancels(client, status):
    """Requests so many choices that they cannot all have finished before the client disconnects."""
    stream = client.completions.create(model="target", prompt=PROMPT, n=64, max_tokens=900,
                                       stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert status()["sessions_running"] > 0, status()
    stream.close()
    until = time.monotonic() + TIME_LIMIT
    while status()["sessions_running"] + status()["sessions_waiting"] > 0:
        assert time.monotonic() < until, "the generations run on"
        time.sleep(0.02)


def check_pair(processes, binaries, folder):
    tokens = folder / "tokens"
    tokens.write_text("tester secret\n")
    pair = ServedPair(processes, binaries, small_pair(binaries), "--client-tokens", tokens)

    def status():
        asked = subprocess.run([binaries / "outrider", "status", "--verifier", pair.grpc, "--json"],
                               capture_output=True, check=True, env={"OUTRIDER_TOKEN": "secret"})
        return json.loads(asked.stdout)

    client = openai.OpenAI(base_url=f"http://{pair.http}/v1", api_key="secret", max_retries=0)
    for check in (check_models, check_completions, check_echo, check_chats, check_parsed_answers):
        check(client)
    asyncio.run(check_async_client(pair.http))
    check_errors(client, pair.http)
    check_cancels(client, status)


def check_copying_model(processes, binaries, folder):
    address = copying_model(processes, binaries, folder)
    client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="any", max_retries=0)
    for answer in (whole_answer, streamed_answer):
        check_tools(client, answer)


def main():
    binaries = pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        check_pair(processes, binaries, pathlib.Path(folder))
        check_copying_model(processes, binaries, pathlib.Path(folder))
    print(
        f"{version('openai')}: completions, chats, parsed answers, tools, errors and cancellation")


if __name__ == "__main__":
    main()
