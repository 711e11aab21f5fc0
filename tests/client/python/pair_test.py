#!/usr/bin/env python3
"""The Python package against a running pair: both clients, the same checks where they do the same.

  pair_test.py SOURCE_DIR BINARY_DIR
"""

import asyncio
import json
import pathlib
import sys
import tempfile
import time

from processes import SKIPPED, TIME_LIMIT, Processes, small_pair
from serving import ServedPair

try:
    import grpc
except ImportError:
    print("skipped: python3-grpcio is not installed")
    sys.exit(SKIPPED)

from outrider import (AsyncClient, Client, FinishReason, GenerationParams, Mode, Rule, Speculation,
                      StructuredOutput, errors)

PROMPT = "Once upon a time"
GREEDY = GenerationParams(max_tokens=24, temperature=0)
PLAIN = Speculation(Mode.OFF)
DRAFTED = GenerationParams(max_tokens=64, temperature=1, seed=3, ignore_eos=True,
                           speculation=Speculation(rule=Rule.BLOCK, draft_length=4))


def expect_error(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in error.message, (kind, error)
    else:
        raise AssertionError(f"no {kind.__name__}: {words}")


def await_true(what, condition):
    until = time.monotonic() + TIME_LIMIT
    while not condition():
        assert time.monotonic() < until, f"waited {TIME_LIMIT} s for {what}"
        time.sleep(0.02)


def check_model(client):
    model = client.model()
    assert model.name == "target" and model.vocab_size > 1000 and model.eos_token_ids, model
    ids = client.tokenize(PROMPT)
    assert client.detokenize(ids) == PROMPT
    assert len(client.tokenize(PROMPT, add_prefix=True)) >= len(ids)
    by_ids = client.generate(client.tokenize(PROMPT, add_prefix=True), GREEDY)
    assert by_ids.text == client.generate(PROMPT, GREEDY).text, by_ids


def check_texts(client):
    whole = client.generate(PROMPT, GREEDY)
    stream = client.stream(PROMPT, GREEDY)
    assert "".join(chunk.text for chunk in stream) == whole.text
    assert (stream.finished.completion_tokens == whole.finished.completion_tokens
            == len(whole.token_ids))
    plain = client.generate(PROMPT,
                            GenerationParams(max_tokens=24, temperature=0, speculation=PLAIN))
    assert plain.text == whole.text and plain.finished.speculation.drafted_tokens == 0, plain
    chunks = []

    def has_drafts():
        stream = client.stream(PROMPT, DRAFTED)
        chunks[:] = stream
        finished = stream.finished
        assert finished.seed == 3 and finished.reason == FinishReason.LENGTH, finished
        return stream.finished.speculation.accepted_tokens > 0

    # A new drafter's first drafts are not waited for.
    await_true("accepted drafts", has_drafts)
    assert sum(chunk.accepted for chunk in chunks) > 0, chunks
    assert all(c.accepted <= c.drafted for c in chunks), chunks


def check_params(client):
    text = client.generate(PROMPT, GREEDY).text
    stop = text[3:6]
    stopped = client.generate(PROMPT, GenerationParams(max_tokens=24, temperature=0,
                                                       stop=["~~~", stop]))
    assert stopped.text == text.split(stop)[0], (stopped, text)
    assert stopped.finished.reason == FinishReason.STOP, stopped
    allowed = client.tokenize("abcdefg")[:3]
    only = client.generate(PROMPT,
                           GenerationParams(max_tokens=12, allowed_token_ids=allowed,
                                            ignore_eos=True))
    assert set(only.token_ids) <= set(allowed), only
    told = client.generate(PROMPT,
                           GenerationParams(max_tokens=4, temperature=0, logprobs=2,
                                            prompt_logprobs=1))
    assert all(entry.rank == 1 and entry.top[0][0] == token
               for token, entry in zip(told.token_ids, told.logprobs)), told
    assert len(told.prompt_logprobs) == told.finished.prompt_tokens - 1, told
    schema = {"type": "object", "required": ["kind"],
              "properties": {"kind": {"enum": ["cat", "dog"]}}, "additionalProperties": False}
    structured = client.generate(PROMPT, GenerationParams(
        max_tokens=100, structured_output=StructuredOutput(json_schema=schema)))
    assert json.loads(structured.text)["kind"] in ("cat", "dog"), structured


def check_errors(client, address):
    expect_error(errors.InvalidArgument, "top_p",
                 lambda: client.generate(PROMPT, GenerationParams(top_p=3)))
    expect_error(errors.OutOfRange, "context", lambda: client.generate("x " * 5000))
    endless = GenerationParams(ignore_eos=True)
    expect_error(errors.DeadlineExceeded, "",
                 lambda: client.generate(PROMPT, endless, timeout=0.001))
    with Client(address, token="wrong") as other:
        expect_error(errors.Unauthenticated, "", other.status)


def check_cancels(client):
    for chunk in client.stream(PROMPT, GenerationParams(ignore_eos=True)):
        assert chunk.token_ids
        break
    await_true("the generation's end", lambda: client.status().sessions_running == 0)


def check_bench(summary):
    assert (summary.requests, summary.failed, summary.completion_tokens) == (8, 0, 8 * 16), summary
    assert summary.tokens_per_second > 0 and summary.ttft_ms.p50 <= summary.latency_ms.p99, summary
    assert summary.accepted_tokens <= summary.drafted_tokens, summary


BENCH = GenerationParams(max_tokens=16, ignore_eos=True, seed=1)


async def check_async(address, token_file):
    async with AsyncClient(address, token_file=token_file) as client:
        wholes = await asyncio.gather(*(client.generate(PROMPT, GREEDY) for _ in range(8)))
        stream = client.stream(PROMPT, GREEDY)
        streamed = "".join([chunk.text async for chunk in stream])
        assert {whole.text for whole in wholes} == {streamed}, (wholes, streamed)
        assert (await client.model()).name == "target"
        check_bench(await client.bench([PROMPT, "The sum of"], BENCH, concurrency=4, requests=8))
        begun = asyncio.Event()

        async def read():
            async for _ in client.stream(PROMPT, GenerationParams(ignore_eos=True)):
                begun.set()

        task = asyncio.ensure_future(read())
        await begun.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        until = time.monotonic() + TIME_LIMIT
        while (await client.status()).sessions_running > 0:
            assert time.monotonic() < until, "the generation runs on"
            await asyncio.sleep(0.02)


def main():
    binaries = pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name, Processes(name) as processes:
        folder = pathlib.Path(name)
        tokens, mine = folder / "tokens", folder / "mine"
        tokens.write_text("tester secret\n")
        mine.write_text("outdated\n")
        pair = ServedPair(processes, binaries, small_pair(binaries), "--client-tokens", tokens)
        with Client(pair.grpc, token_file=mine) as client:
            expect_error(errors.Unauthenticated, "", client.model)
            mine.write_text("secret\n")
            for check in (check_model, check_texts, check_params, check_cancels):
                check(client)
            check_errors(client, pair.grpc)
            check_bench(client.bench([PROMPT, "The sum of"], BENCH, concurrency=4, requests=8))
            asyncio.run(check_async(pair.grpc, mine))
            processes.running[0].terminate()
            processes.running[0].wait()
            expect_error(errors.Unavailable, "", client.model)
    print(f"grpcio {grpc.__version__}: texts, parameters, errors, cancellation and load, blocking "
          "and asyncio")


if __name__ == "__main__":
    main()
