"""The blocking client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc

from outrider.bench import BenchSummary, BenchWork, RequestRecord, summarise
from outrider.connection import DEFAULT_VERIFIER, Connection, Path, Tls
from outrider.errors import Cancelled, Internal, OutriderError, from_rpc_error
from outrider.params import GenerationParams, Prompt
from outrider.results import (Chunk, Finished, ModelInfo, Result, chunk_from_proto,
                              finished_from_proto, join, model_from_proto)
from outrider.v1 import generation_pb2 as pb
from outrider.v1 import generation_pb2_grpc


class Stream:
    """Chunks of one text, as they are decoded. Iterate it once.

    Leaving the loop early, leaving a `with` block, or `cancel` (from any thread) ends the
    generation at the server. `finished` is set after the last chunk.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self.finished: Finished | None = None

    def cancel(self) -> None:
        self._call.cancel()

    def __iter__(self) -> Iterator[Chunk]:
        try:
            for response in self._call:
                if response.HasField("chunk"):
                    yield chunk_from_proto(response.chunk)
                elif response.HasField("finished"):
                    self.finished = finished_from_proto(response.finished)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        finally:
            self._call.cancel()  # no effect on a call that has ended
        if self.finished is None:
            raise Internal("the stream ended without its last message")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._call.cancel()


class Client:
    """A verifier's Generation service with blocking calls. Calls from several threads run at once.

    `token` or `token_file` (its first token, read at every call) is sent as a bearer token.
    `timeout`, in seconds, is for calls that name none of their own; None: none. The first call
    connects. Raises ValueError for settings that cannot work.
    """

    def __init__(self, verifier: str = DEFAULT_VERIFIER, *, token: str | None = None,
                 token_file: Path | None = None, tls: Tls | None = None,
                 allow_plaintext: bool = False, timeout: float | None = None) -> None:
        self._connection = Connection(verifier, token, token_file, tls, allow_plaintext)
        self._timeout = timeout
        self._is_closed = False
        options, credentials = self._connection.options, self._connection.credentials
        if credentials is None:
            self._channel = grpc.insecure_channel(verifier, options)
        else:
            self._channel = grpc.secure_channel(verifier, credentials, options)
        make_stub: Any = generation_pb2_grpc.GenerationStub  # generated without types
        self._stub = make_stub(self._channel)

    def close(self) -> None:
        """Ends all calls and the connection. They, and later calls, raise `errors.Cancelled`."""
        self._is_closed = True
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def stream(self, prompt: Prompt, params: GenerationParams | None = None, *,
               timeout: float | None = None) -> Stream:
        """Begins to generate. Errors of the call are raised while iterating."""
        request = (params or GenerationParams()).to_proto(prompt)
        return Stream(self._call("Generate", request, timeout))

    def generate(self, prompt: Prompt, params: GenerationParams | None = None, *,
                 timeout: float | None = None) -> Result:
        """Generates a whole text."""
        stream = self.stream(prompt, params, timeout=timeout)
        chunks = list(stream)
        assert stream.finished is not None
        return join(chunks, stream.finished)

    def bench(self, prompts: Sequence[Prompt], params: GenerationParams | None = None, *,
              concurrency: int = 1, requests: int | None = None,
              timeout: float | None = None) -> BenchSummary:
        """Puts closed-loop load on the verifier: `concurrency` requests are always under way.

        Takes the prompts in turn, `requests` in all (None: each once). A seed s becomes s + i for
        request i. Failed requests are counted by code, and do not end the benchmark; Ctrl-C
        cancels those under way.
        """
        work = BenchWork(prompts, params, concurrency, requests)
        stop = threading.Event()
        under_way: set[Stream] = set()

        def run_one(index: int) -> RequestRecord:
            record = RequestRecord(time.monotonic())
            try:
                stream = self.stream(*work.request(index), timeout=timeout)
            except OutriderError as error:
                record.on_error(time.monotonic(), error)
                return record
            under_way.add(stream)
            if stop.is_set():
                stream.cancel()
            try:
                for chunk in stream:
                    record.on_chunk(time.monotonic(), chunk)
                record.on_end(time.monotonic(), stream.finished)
            except OutriderError as error:
                record.on_error(time.monotonic(), error)
            finally:
                under_way.discard(stream)
            return record

        def run_worker() -> list[RequestRecord]:
            return [run_one(index) for index in work if not stop.is_set()]

        start = time.monotonic()
        with ThreadPoolExecutor(work.concurrency) as pool:
            try:
                workers = [pool.submit(run_worker) for _ in range(work.concurrency)]
                records = [record for worker in workers for record in worker.result()]
            finally:
                stop.set()
                for stream in list(under_way):
                    stream.cancel()
        return summarise(records, time.monotonic() - start)

    def tokenize(self, text: str, *, parse_special: bool = False, add_prefix: bool = False,
                 timeout: float | None = None) -> list[int]:
        """Token ids of the text. `add_prefix` puts the tokenizer's prefix (BOS) before it."""
        request = pb.TokenizeRequest(text=text, parse_special=parse_special, add_prefix=add_prefix)
        return list(self._ask("Tokenize", request, timeout).token_ids)

    def detokenize(self, token_ids: Sequence[int], *, skip_special: bool = False,
                   timeout: float | None = None) -> str:
        request = pb.DetokenizeRequest(token_ids=token_ids, skip_special=skip_special)
        return str(self._ask("Detokenize", request, timeout).text)

    def model(self, *, timeout: float | None = None) -> ModelInfo:
        return model_from_proto(self._ask("GetModel", pb.GetModelRequest(), timeout))

    def status(self, *, timeout: float | None = None) -> pb.GetStatusResponse:
        """The verifier, its drafters and its sessions at this moment."""
        response: pb.GetStatusResponse = self._ask("GetStatus", pb.GetStatusRequest(), timeout)
        return response

    def _ask(self, method: str, request: Any, timeout: float | None) -> Any:
        try:
            return self._call(method, request, timeout)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    def _call(self, method: str, request: Any, timeout: float | None) -> Any:
        """What gRPC returns: a unary method's response, or a stream."""
        timeout = self._timeout if timeout is None else timeout
        metadata = self._connection.metadata()
        try:
            return getattr(self._stub, method)(request, timeout=timeout, metadata=metadata)
        except ValueError:  # gRPC's own, when the channel is closed
            if not self._is_closed:
                raise
            raise Cancelled("the client is closed") from None
