#!/usr/bin/env python3
"""The Python client against a scripted service: what it sends, and what it makes of the answers.

  unit_test.py SOURCE_DIR BINARY_DIR
"""

import asyncio
import contextlib
import copy
import math
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from processes import SKIPPED, TIME_LIMIT, Processes

try:
    import grpc
    from google.protobuf.descriptor import FieldDescriptor
except ImportError:
    print("skipped: python3-grpcio or python3-protobuf is not installed")
    sys.exit(SKIPPED)

from fake_verifier import FakeVerifier, chunk, finished
from outrider import (AsyncClient, Client, FinishReason, GenerationParams, Mode, Percentiles, Rule,
                      SchemaRule, Speculation, StopRule, StructuredOutput, Tls, __version__,
                      connection, errors)
from outrider.bench import RequestRecord, summarise
from outrider.connection import is_loopback
from outrider.results import Chunk
from outrider.v1 import generation_pb2 as pb


EVERYTHING = GenerationParams(
    max_tokens=5, temperature=0.5, top_k=3, top_p=0.5, min_p=0.25, repetition_penalty=1.5,
    presence_penalty=0.5, frequency_penalty=0.25, logit_bias={7: -1.5}, allowed_token_ids=[1, 2],
    bad_words=[[1, 2], [3]],
    structured_output=StructuredOutput(gbnf='root ::= x',
                                       schemas=[SchemaRule("x", {"type": "null"}, ["a", "b"])]),
    stop=["end", "\n"], stop_token_ids=[9], ignore_eos=True, min_tokens=2, include_stop=True,
    seed=11, logprobs=2, prompt_logprobs=1, parse_special=True, add_prefix=False,
    skip_special=False,
    speculation=Speculation(Mode.OFF, Rule.BLOCK, draft_length=4, paths=2, tree=[2, 1],
                            stop=StopRule(StopRule.Kind.ENTROPY, 1.5)))


def two_chunks(request, context):
    yield chunk("Hel", [1])
    yield pb.GenerateResponse(padding=b"  ")
    yield chunk("lo", [2, 3], accepted=1, drafted=4)
    yield finished(3)


def endless(request, context):
    while context.is_active():
        yield chunk("x", [1])


def unset_fields(message, path=""):
    """Fields that nobody has set, in the message and those within."""
    missing = []
    for field in message.DESCRIPTOR.fields:
        name = f"{path}{field.name}"
        value = getattr(message, field.name)
        is_list = (field.label == FieldDescriptor.LABEL_REPEATED if hasattr(field, "label")
                   else field.is_repeated)
        is_set = len(value) > 0 if is_list else bool(value) or (
            field.has_presence and message.HasField(field.name))
        if field.containing_oneof is not None and not field.containing_oneof.name.startswith("_"):
            # One of several: it is enough that one is set.
            is_set = is_set or message.WhichOneof(field.containing_oneof.name) is not None
        if not is_set:
            missing.append(name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if is_list else [value] if message.HasField(field.name) else []:
                missing += unset_fields(each, name + ".")
    return missing


class ParamsTest(unittest.TestCase):
    def test_covers_every_field_of_a_request(self):
        self.assertEqual(unset_fields(EVERYTHING.to_proto("Once")), [])
        proto = EVERYTHING.to_proto([4, 5])
        self.assertEqual(list(proto.token_ids.ids), [4, 5])
        self.assertEqual(list(proto.stop.stop_strings), ["end", "\n"])
        self.assertEqual([list(words.ids) for words in proto.sampling.bad_words], [[1, 2], [3]])
        self.assertEqual(proto.sampling.structured_output.schemas[0].schema, '{"type": "null"}')
        self.assertEqual((proto.add_prefix, proto.skip_special), (False, False))
        self.assertEqual(proto.speculation.stop.kind, pb.StopRule.KIND_ENTROPY)

    def test_sends_nothing_that_is_not_set(self):
        self.assertEqual(GenerationParams().to_proto("Once"),
                         pb.GenerateRequest(text="Once", sampling={}, stop={}))
        # Zero is a value of its own.
        proto = GenerationParams(temperature=0, logprobs=0, max_tokens=0).to_proto("Once")
        self.assertTrue(proto.sampling.HasField("temperature") and proto.HasField("logprobs"))
        self.assertTrue(proto.stop.HasField("max_tokens"))

    def test_enums_are_those_of_the_contract(self):
        for ours, theirs, prefix in [(Mode, pb.SpeculationOptions.Mode, "MODE_"),
                                     (Rule, pb.SpeculationOptions.Rule, "RULE_"),
                                     (StopRule.Kind, pb.StopRule.Kind, "KIND_")]:
            self.assertEqual({prefix + value.name: value.value for value in ours},
                             dict(theirs.items()))

    def test_structured_output_has_one_format(self):
        for fields, expected in [({"json_object": True}, "json_object"),
                                 ({"json_schema": {}}, "json_schema"),
                                 ({"regex": "a"}, "regex"), ({"choice": ["a", "b"]}, "choice"),
                                 ({"gbnf": "root ::= x"}, "gbnf")]:
            self.assertEqual(StructuredOutput(**fields).to_proto().WhichOneof("format"), expected)
        for fields in ({}, {"regex": "a", "gbnf": "b"}, {"json_object": True, "choice": ["a"]}):
            with self.assertRaises(ValueError):
                StructuredOutput(**fields)

    def test_refuses_strings_as_lists(self):
        """Their characters, or bytes, would be taken for the list's elements."""
        with self.assertRaisesRegex(TypeError, "write stop="):
            GenerationParams(stop="end")
        with self.assertRaisesRegex(TypeError, "write choice="):
            StructuredOutput(choice="yes")
        with self.assertRaisesRegex(TypeError, "not bytes"):
            GenerationParams().to_proto(b"Once")
        with Client() as client, self.assertRaisesRegex(TypeError, "write prompts="):
            client.bench("Once")


class ConnectionTest(unittest.TestCase):
    def test_knows_loopback_addresses(self):
        for address in ("127.0.0.1:7300", "localhost:1", "[::1]:2", "unix:/tmp/x",
                        "dns:///localhost:3", "ipv4:127.0.0.1:1,127.0.0.2:1",
                        "[::ffff:127.0.0.1]:1"):
            self.assertTrue(is_loopback(address), address)
        for address in ("10.0.0.1:7300", "verifier:7300", "dns:///verifier:1",
                        "ipv4:127.0.0.1:1,10.0.0.1:1", "[::2]:1"):
            self.assertFalse(is_loopback(address), address)

    def test_plaintext_stays_on_this_machine(self):
        for kind in (Client, AsyncClient):
            with self.assertRaisesRegex(ValueError, "would be plaintext"):
                kind("verifier:7300")
            kind("verifier:7300", allow_plaintext=True)

    def test_refuses_settings_that_contradict(self):
        for kind in (Client, AsyncClient):
            with self.assertRaisesRegex(ValueError, "both given"):
                kind(token="a", token_file="b")
            with self.assertRaisesRegex(ValueError, "visible ASCII") as caught:
                kind(token="se cret")
            self.assertNotIn("cret", str(caught.exception))
            with self.assertRaises(OSError):
                kind(token_file="/nonexistent")
        with self.assertRaisesRegex(ValueError, "cert and key"):
            Tls("ca.pem", cert="cert.pem")

    def test_reads_token_file_at_every_call(self):
        with tempfile.TemporaryDirectory() as folder, FakeVerifier(two_chunks) as verifier:
            path = pathlib.Path(folder) / "token"
            path.write_text("# mine\n\ntester first\nother second\n")
            with Client(verifier.address, token_file=path) as client:
                client.tokenize("a")
                path.write_text("third\n")
                client.generate("a")
                path.write_text("# none\n")
                with self.assertRaisesRegex(ValueError, "holds no token"):
                    client.tokenize("a")
                path.write_text("a b c\n")
                with self.assertRaisesRegex(ValueError, "line 1: expected"):
                    client.tokenize("a")
            with Client(verifier.address, token="fourth") as client:
                client.tokenize("a")
            with Client(verifier.address) as client:
                client.tokenize("a")
            self.assertEqual([headers.get("authorization") for headers in verifier.headers],
                             ["Bearer first", "Bearer third", "Bearer fourth", None])

    def test_says_its_version(self):
        with FakeVerifier(two_chunks) as verifier, Client(verifier.address) as client:
            client.tokenize("a")
            self.assertTrue(verifier.headers[0]["user-agent"].startswith(
                f"outrider-python/{__version__} "), verifier.headers)


def make_certificates(folder):
    """An authority, and a certificate by it for the name `pair`."""
    def openssl(*argv):
        subprocess.run(["openssl", *argv], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-days", "2", "-subj", "/CN=authority")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem",
            "-subj", "/CN=pair")
    (folder / "names").write_text("subjectAltName=DNS:pair\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "cert.pem", "-days", "2", "-extfile", "names")


class TlsTest(unittest.TestCase):
    def test_mutual_tls_with_a_server_name(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_certificates(folder)
            ca, cert, key = (folder / file for file in ("ca.pem", "cert.pem", "key.pem"))
            credentials = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())],
                                                      ca.read_bytes(), True)
            with FakeVerifier(two_chunks, credentials) as verifier:
                tls = Tls(ca, cert, key, server_name="pair")
                with Client(verifier.address, tls=tls) as client:
                    self.assertEqual(client.generate("x").text, "Hello")

                async def over_asyncio():
                    async with AsyncClient(verifier.address, tls=tls) as client:
                        return (await client.generate("x")).text

                self.assertEqual(asyncio.run(over_asyncio()), "Hello")
                for wrong in (Tls(ca, server_name="pair"), Tls(ca, cert, key, server_name="other")):
                    with (Client(verifier.address, tls=wrong) as client,
                          self.assertRaises(errors.Unavailable)):
                        client.generate("x")


class AnswersTest(unittest.TestCase):
    def check(self, chunks, whole):
        self.assertEqual([part.text for part in chunks], ["Hel", "lo"])
        self.assertEqual((chunks[1].token_ids, chunks[1].accepted, chunks[1].drafted),
                         ((2, 3), 1, 4))
        self.assertEqual((whole.text, whole.token_ids), ("Hello", (1, 2, 3)))
        self.assertEqual(whole.finished.reason, FinishReason.LENGTH)
        self.assertEqual((whole.finished.prompt_tokens, whole.finished.completion_tokens), (3, 3))

    def test_streams_and_joins(self):
        with FakeVerifier(two_chunks) as verifier:
            with Client(verifier.address) as client:
                stream = client.stream("x")
                self.check(list(stream), client.generate("x", EVERYTHING))
                self.assertEqual(stream.finished.completion_tokens, 3)
                self.assertEqual(client.tokenize("four", add_prefix=True), [4, 1])
            self.assertEqual(verifier.requests,
                             [GenerationParams().to_proto("x"), EVERYTHING.to_proto("x")])

    def test_streams_and_joins_over_asyncio(self):
        async def run(address):
            async with AsyncClient(address) as client:
                stream = client.stream("x")
                chunks = [part async for part in stream]
                self.check(chunks, await client.generate("x"))
                self.assertEqual(stream.finished.completion_tokens, 3)
                self.assertEqual(await client.tokenize("four"), [4, 0])

        with FakeVerifier(two_chunks) as verifier:
            asyncio.run(run(verifier.address))

    def test_every_statistic_is_read(self):
        told = finished(5, seed=7, cached_tokens=2,
                        timing={"queue_seconds": 1, "prefill_seconds": 2, "decode_seconds": 3},
                        speculation={"rounds": 1, "drafted_rounds": 2, "drafted_tokens": 3,
                                     "accepted_tokens": 4, "accepted_per_position": [5],
                                     "arms": [{"arm": "a", "rounds": 6}], "arm_switches": 7,
                                     "forced_tokens": 8})
        entry = pb.TokenLogprobs(logprob=-1, top_token_ids=[4], top_logprobs=[-0.5], rank=2)
        first = pb.GenerateResponse(
            chunk=pb.TokenChunk(token_ids=[1], logprobs=[entry], prompt_logprobs=[entry, entry]))
        self.assertEqual(unset_fields(told.finished), [])
        with (FakeVerifier(lambda *_: iter([first, told])) as verifier,
              Client(verifier.address) as client):
            result = client.generate("x")
        end, spec = result.finished, result.finished.speculation
        self.assertEqual((end.seed, end.cached_tokens), (7, 2))
        self.assertEqual((end.timing.queue_seconds, end.timing.prefill_seconds,
                          end.timing.decode_seconds), (1, 2, 3))
        self.assertEqual((spec.rounds, spec.drafted_rounds, spec.drafted_tokens,
                          spec.accepted_tokens), (1, 2, 3, 4))
        self.assertEqual((spec.accepted_per_position, spec.arm_switches, spec.forced_tokens),
                         ((5,), 7, 8))
        self.assertEqual([(arm.name, arm.rounds) for arm in spec.arms], [("a", 6)])
        self.assertEqual((result.logprobs[0].rank, result.logprobs[0].top), (2, ((4, -0.5),)))
        self.assertEqual(len(result.prompt_logprobs), 2)


class ErrorsTest(unittest.TestCase):
    def test_codes_have_their_exceptions(self):
        for code in grpc.StatusCode:
            if code == grpc.StatusCode.OK:
                continue

            def fail(request, context, code=code):
                yield chunk("x", [1])
                context.abort(code, "because")

            name = "".join(word.capitalize() for word in code.name.split("_"))
            kind = getattr(errors, name, errors.OutriderError)
            with FakeVerifier(fail) as verifier, Client(verifier.address) as client:
                with self.assertRaises(kind) as caught:
                    client.generate("x")
                self.assertEqual((caught.exception.code, caught.exception.message),
                                 (code, "because"))
                self.assertIn(code.name, str(caught.exception))
                self.assertIs(type(caught.exception), kind)

    def test_survives_pickle_and_copy(self):
        for error in (errors.Unavailable("gone"),
                      errors.OutriderError("no such call", grpc.StatusCode.UNIMPLEMENTED)):
            for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
                self.assertIs(type(twin), type(error))
                self.assertEqual((twin.code, twin.message, str(twin)),
                                 (error.code, error.message, str(error)))

    def test_unary_calls_too(self):
        async def ask(address):
            async with AsyncClient(address) as client:
                await client.model()

        with FakeVerifier(two_chunks) as verifier:
            with Client(verifier.address) as client, self.assertRaisesRegex(
                errors.Unauthenticated, "no token"):
                client.model()
            with self.assertRaisesRegex(errors.Unauthenticated, "no token"):
                asyncio.run(ask(verifier.address))

    def test_nobody_answers(self):
        with FakeVerifier(two_chunks) as verifier:
            address = verifier.address
        with Client(address) as client, self.assertRaises(errors.Unavailable):
            client.generate("x")

    def test_text_without_its_end(self):
        async def over_asyncio(address):
            async with AsyncClient(address) as client:
                await client.generate("x")

        with FakeVerifier(lambda *_: iter([chunk("x", [1])])) as verifier:
            with Client(verifier.address) as client, self.assertRaisesRegex(
                errors.Internal, "last message"):
                client.generate("x")
            with self.assertRaisesRegex(errors.Internal, "last message"):
                asyncio.run(over_asyncio(verifier.address))

    def test_timeouts(self):
        async def over_asyncio(address):
            async with AsyncClient(address, timeout=0.2) as client:
                await client.generate("x")

        with FakeVerifier(endless) as verifier:
            with Client(verifier.address, timeout=0.2) as client, self.assertRaises(
                errors.DeadlineExceeded):
                client.generate("x")
            with Client(verifier.address) as client, self.assertRaises(errors.DeadlineExceeded):
                client.generate("x", timeout=0.2)
            with self.assertRaises(errors.DeadlineExceeded):
                asyncio.run(over_asyncio(verifier.address))


class LostVerifierTest(unittest.TestCase):
    """One that no longer answers, and does not close its connections either."""

    def test_long_silence_is_watched(self):
        """After more pings without data than gRPC sends by itself, the verifier freezes."""
        hurried = [(name, 200 if name in ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms",
                                          "grpc.http2.ping_timeout_ms") else value)
                   for name, value in connection._CHANNEL_OPTIONS]
        over = threading.Event()

        def silent(request, context):
            yield chunk("x", [1])
            over.wait(TIME_LIMIT)

        with (mock.patch.object(connection, "_CHANNEL_OPTIONS", hurried),
              tempfile.TemporaryDirectory() as folder, Processes(folder) as processes,
              FakeVerifier(silent, takes_pings=True) as verifier):
            proxy = processes.start("proxy", [pathlib.Path(sys.argv[2]) / "delay_proxy", "--to",
                                              verifier.address], await_line="port=")
            address = f"127.0.0.1:{proxy.line.partition('=')[2]}"
            freezer = threading.Timer(2, proxy.send_signal, [signal.SIGSTOP])
            try:
                with Client(address, timeout=30) as client, self.assertRaises(errors.Unavailable):
                    for _ in client.stream("x"):
                        freezer.start()
            finally:
                over.set()
                freezer.join()
                proxy.send_signal(signal.SIGCONT)

    def test_silent_port_is_unavailable_soon(self):
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            # An attempt to connect may take 5 s; later, the error would be DeadlineExceeded.
            with (Client(f"127.0.0.1:{nobody.getsockname()[1]}", timeout=15) as client,
                  self.assertRaises(errors.Unavailable)):
                client.model()


class CancelTest(unittest.TestCase):
    """The server must see that the client has left."""

    @contextlib.contextmanager
    def endless(self):
        with FakeVerifier(endless) as verifier:
            yield verifier
            self.assertTrue(verifier.cancelled.wait(TIME_LIMIT), "the generation runs on")

    def test_leaving_the_loop(self):
        with self.endless() as verifier, Client(verifier.address) as client:
            stream = client.stream("x")
            for _ in stream:
                break
            self.assertTrue(verifier.cancelled.wait(TIME_LIMIT))

    def test_leaving_the_block(self):
        with self.endless() as verifier, Client(verifier.address) as client:
            with client.stream("x") as stream:
                chunks = iter(stream)
                next(chunks)
            self.assertTrue(verifier.cancelled.wait(TIME_LIMIT))

    def expect_cancelled(self, stream, end):
        """Reads the stream, and calls `end` on another thread once it has begun."""
        begun = threading.Event()

        def await_and_end():
            begun.wait(TIME_LIMIT)
            end()

        ender = threading.Thread(target=await_and_end)
        ender.start()
        with self.assertRaises(errors.Cancelled):
            for _ in stream:
                begun.set()
        ender.join()

    def test_from_another_thread(self):
        with self.endless() as verifier, Client(verifier.address) as client:
            stream = client.stream("x")
            self.expect_cancelled(stream, stream.cancel)

    def test_leaving_the_async_loop(self):
        async def run(verifier):
            async with AsyncClient(verifier.address) as client:
                stream = client.stream("x")
                async for _ in stream:
                    break
                self.assertTrue(await asyncio.to_thread(verifier.cancelled.wait, TIME_LIMIT))

        with self.endless() as verifier:
            asyncio.run(run(verifier))

    def test_leaving_the_async_block(self):
        async def run(verifier):
            async with AsyncClient(verifier.address) as client:
                async with client.stream("x") as stream:
                    await stream.__aiter__().__anext__()
                self.assertTrue(await asyncio.to_thread(verifier.cancelled.wait, TIME_LIMIT))

        with self.endless() as verifier:
            asyncio.run(run(verifier))

    def test_cancelling_the_task(self):
        async def run(verifier):
            async with AsyncClient(verifier.address) as client:
                begun = asyncio.Event()

                async def read():
                    async for _ in client.stream("x"):
                        begun.set()

                task = asyncio.ensure_future(read())
                await begun.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertTrue(await asyncio.to_thread(verifier.cancelled.wait, TIME_LIMIT))

        with self.endless() as verifier:
            asyncio.run(run(verifier))

    def test_cancelling_the_async_stream(self):
        async def run(verifier):
            async with AsyncClient(verifier.address) as client:
                stream = client.stream("x")
                with self.assertRaises(errors.Cancelled):
                    async for _ in stream:
                        stream.cancel()

        with self.endless() as verifier:
            asyncio.run(run(verifier))

    def test_closing_the_client(self):
        """Calls under way end at the server, and at the client as cancelled."""
        with self.endless() as verifier:
            client = Client(verifier.address)
            self.expect_cancelled(client.stream("x"), client.close)

    def test_closing_the_async_client(self):
        async def close_under(call, client, begun):
            task = asyncio.ensure_future(call)
            await asyncio.to_thread(begun.wait, TIME_LIMIT)
            await client.close()
            with self.assertRaises(errors.Cancelled):
                await asyncio.wait_for(task, TIME_LIMIT)

        async def run(verifier):
            client, begun = AsyncClient(verifier.address), threading.Event()

            async def read():
                async for _ in client.stream("x"):
                    begun.set()

            await close_under(read(), client, begun)
            client = AsyncClient(verifier.address)
            await close_under(client.status(), client, verifier.asked)

        with self.endless() as verifier:
            asyncio.run(run(verifier))

    def test_closed_client_refuses_calls(self):
        async def over_asyncio(verifier, client):
            await client.close()
            await client.close()
            for call in (client.generate("x"), client.status()):
                with self.assertRaisesRegex(errors.Cancelled, "the client is closed"):
                    await asyncio.wait_for(call, TIME_LIMIT)
            self.assertEqual((await client.bench(["x"])).errors, {"CANCELLED": 1})

        async def after_a_call(verifier):
            client = AsyncClient(verifier.address)
            await client.generate("x")
            await over_asyncio(verifier, client)

        with FakeVerifier(two_chunks) as verifier:
            client = Client(verifier.address)
            client.close()
            client.close()
            for call in (client.generate, client.stream, client.tokenize):
                with self.assertRaisesRegex(errors.Cancelled, "the client is closed"):
                    call("x")
            self.assertEqual(client.bench(["x"]).errors, {"CANCELLED": 1})
            asyncio.run(over_asyncio(verifier, AsyncClient(verifier.address)))
            asyncio.run(after_a_call(verifier))

    def test_iterating_again_is_no_cancelled_task(self):
        async def run(verifier):
            async with AsyncClient(verifier.address) as client:
                stream = client.stream("x")
                async for _ in stream:
                    break
                with self.assertRaises(errors.Cancelled):
                    async for _ in stream:
                        pass

        with self.endless() as verifier:
            asyncio.run(run(verifier))


class BenchTest(unittest.TestCase):
    def test_percentiles_interpolate(self):
        self.assertEqual(Percentiles.of([4, 0, 1, 3, 2]), Percentiles(2, 2, 3.8, 3.96))

    def test_times_of_tokens(self):
        def part(count):
            return Chunk("", tuple(range(count)), 0, 0, (), ())

        record = RequestRecord(10)
        for now, count in [(11, 0), (12, 2), (15, 3)]:
            record.on_chunk(now, part(count))
        self.assertEqual((record.ttft, record.itl), (2, [1, 1, 1]))
        record.on_error(16, errors.Unavailable("gone"))
        summary = summarise([record], 4)
        self.assertEqual((summary.failed, summary.errors), (1, {"UNAVAILABLE": 1}))

    def test_nothing_measured_is_not_zero(self):
        summary = summarise([RequestRecord(10, 11, errors.Unavailable("gone"))], 4)
        for times in (summary.ttft_ms, summary.itl_ms, summary.latency_ms):
            self.assertTrue(all(map(math.isnan, (times.mean, times.p50, times.p95, times.p99))))
        lines = str(summary).splitlines()
        for name in ("time to first token", "between tokens", "request"):
            self.assertIn(f"{name}: -", lines)

    def script(self, request, context):
        if request.text == "bad":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bad")
        yield chunk("x", [1, 2])
        yield chunk("y", [3], accepted=1, drafted=2)
        yield finished(3, speculation={"rounds": 2, "drafted_tokens": 2, "accepted_tokens": 1})

    def check(self, verifier, summary):
        self.assertEqual((summary.requests, summary.failed, summary.errors),
                         (12, 4, {"INVALID_ARGUMENT": 4}))
        self.assertEqual((summary.completion_tokens, summary.rounds), (24, 16))
        self.assertEqual((summary.drafted_tokens, summary.accepted_tokens), (16, 8))
        self.assertGreater(summary.tokens_per_second, 0)
        self.assertLessEqual(summary.ttft_ms.mean, summary.latency_ms.mean)
        self.assertIn("12 requests", str(summary))
        self.assertEqual(sorted(request.seed for request in verifier.requests), list(range(5, 17)))
        texts = [request.text for request in verifier.requests]
        self.assertEqual([texts.count(text) for text in ("a", "b", "bad")], [4, 4, 4])
        self.assertLessEqual(verifier.most_running, 3)

    def test_takes_prompts_in_turn(self):
        with FakeVerifier(self.script) as verifier, Client(verifier.address) as client:
            self.check(verifier, client.bench(["a", "b", "bad"], GenerationParams(seed=5),
                                              concurrency=3, requests=12))

    def test_takes_prompts_in_turn_over_asyncio(self):
        async def run(address):
            async with AsyncClient(address) as client:
                return await client.bench(["a", "b", "bad"], GenerationParams(seed=5),
                                          concurrency=3, requests=12)

        with FakeVerifier(self.script) as verifier:
            self.check(verifier, asyncio.run(run(verifier.address)))

    def test_keeps_that_many_under_way(self):
        """Each call waits until as many are there."""
        meeting = threading.Barrier(3, timeout=TIME_LIMIT)

        def meet(request, context):
            meeting.wait()
            yield finished(0)

        async def over_asyncio(address):
            async with AsyncClient(address) as client:
                return await client.bench(["a"], concurrency=3, requests=6)

        with FakeVerifier(meet) as verifier, Client(verifier.address) as client:
            self.assertEqual(client.bench(["a"], concurrency=3, requests=6).failed, 0)
            self.assertEqual(asyncio.run(over_asyncio(verifier.address)).failed, 0)

    def test_ctrl_c_cancels_running_requests(self):
        def interrupt_once(*_):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise KeyboardInterrupt

        def interrupt(request, context):
            """Again and again: Python may lose a signal that comes just before a thread waits."""
            for _ in endless(request, context):
                os.kill(os.getpid(), signal.SIGINT)
                yield chunk("x", [1])
                time.sleep(0.01)

        before = signal.signal(signal.SIGINT, interrupt_once)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with FakeVerifier(interrupt) as verifier, Client(verifier.address) as client:
            with self.assertRaises(KeyboardInterrupt):
                client.bench(["a"], concurrency=1)
            self.assertTrue(verifier.cancelled.wait(TIME_LIMIT), "the generation runs on")

    def test_refuses_what_is_no_load(self):
        with Client() as client:
            for arguments in ({"prompts": []}, {"prompts": ["a"], "concurrency": 0},
                              {"prompts": ["a"], "concurrency": 1025},
                              {"prompts": ["a"], "requests": 0}):
                with self.assertRaises(ValueError):
                    client.bench(**arguments)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
