"""The asyncio client."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from outrider.bench import BenchSummary, BenchWork, RequestRecord, summarise
from outrider.connection import DEFAULT_VERIFIER, Connection, Path, Tls
from outrider.errors import Cancelled, Internal, OutriderError, from_rpc_error
from outrider.params import GenerationParams, Prompt
from outrider.results import (Chunk, Finished, ModelInfo, Result, chunk_from_proto,
                              finished_from_proto, join, model_from_proto)
from outrider.v1 import generation_pb2 as pb
from outrider.v1 import generation_pb2_grpc


class AsyncStream:
    """Chunks of one text, as they are decoded. Iterate it once.

    Leaving the loop early, leaving an `async with` block, cancelling the task that iterates, or
    `cancel` ends the generation at the server. `finished` is set after the last chunk.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self._is_cancelled = False
        self.finished: Finished | None = None

    def cancel(self) -> None:
        """The loop over the stream then raises `errors.Cancelled`."""
        self._is_cancelled = True
        self._call.cancel()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[Chunk]:
        try:
            async for response in self._call:
                if response.HasField("chunk"):
                    yield chunk_from_proto(response.chunk)
                elif response.HasField("finished"):
                    self.finished = finished_from_proto(response.finished)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise  # the task was cancelled, not the stream
            raise Cancelled("the stream was cancelled by this client") from None
        finally:
            self.cancel()  # no effect on a call that has ended
        if self.finished is None:
            raise Internal("the stream ended without its last message")

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.cancel()


class AsyncClient:
    """A verifier's Generation service for asyncio; the arguments are those of `Client`.

    It belongs to the event loop of its first call.
    """

    def __init__(self, verifier: str = DEFAULT_VERIFIER, *, token: str | None = None,
                 token_file: Path | None = None, tls: Tls | None = None,
                 allow_plaintext: bool = False, timeout: float | None = None) -> None:
        self._connection = Connection(verifier, token, token_file, tls, allow_plaintext)
        self._timeout = timeout
        self._channel: Any = None
        self._open_stub: Any = None
        self._is_closed = False
        # Streams and other calls: a channel of grpc.aio does not find all of its own at its end.
        self._calls: weakref.WeakSet[Any] = weakref.WeakSet()

    async def close(self) -> None:
        """Ends all calls and the connection. They, and later calls, raise `errors.Cancelled`."""
        self._is_closed = True
        for call in list(self._calls):
            call.cancel()
        if self._channel is not None:
            await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    def stream(self, prompt: Prompt, params: GenerationParams | None = None, *,
               timeout: float | None = None) -> AsyncStream:
        """Begins to generate. Errors of the call are raised while iterating."""
        request = (params or GenerationParams()).to_proto(prompt)
        stream = AsyncStream(self._stub().Generate(request, **self._call_options(timeout)))
        self._calls.add(stream)
        return stream

    async def generate(self, prompt: Prompt, params: GenerationParams | None = None, *,
                       timeout: float | None = None) -> Result:
        """Generates a whole text."""
        stream = self.stream(prompt, params, timeout=timeout)
        chunks = [chunk async for chunk in stream]
        assert stream.finished is not None
        return join(chunks, stream.finished)

    async def bench(self, prompts: Sequence[Prompt], params: GenerationParams | None = None, *,
                    concurrency: int = 1, requests: int | None = None,
                    timeout: float | None = None) -> BenchSummary:
        """Puts closed-loop load on the verifier, as `Client.bench` does."""
        work = BenchWork(prompts, params, concurrency, requests)

        async def run_one(index: int) -> RequestRecord:
            record = RequestRecord(time.monotonic())
            try:
                stream = self.stream(*work.request(index), timeout=timeout)
                async for chunk in stream:
                    record.on_chunk(time.monotonic(), chunk)
                record.on_end(time.monotonic(), stream.finished)
            except OutriderError as error:
                record.on_error(time.monotonic(), error)
            return record

        async def run_worker() -> list[RequestRecord]:
            return [await run_one(index) for index in work]

        start = time.monotonic()
        workers = [asyncio.ensure_future(run_worker()) for _ in range(work.concurrency)]
        try:
            records = await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        return summarise([record for some in records for record in some], time.monotonic() - start)

    async def tokenize(self, text: str, *, parse_special: bool = False, add_prefix: bool = False,
                       timeout: float | None = None) -> list[int]:
        """Token ids of the text. `add_prefix` puts the tokenizer's prefix (BOS) before it."""
        request = pb.TokenizeRequest(text=text, parse_special=parse_special, add_prefix=add_prefix)
        return list((await self._ask("Tokenize", request, timeout)).token_ids)

    async def detokenize(self, token_ids: Sequence[int], *, skip_special: bool = False,
                         timeout: float | None = None) -> str:
        request = pb.DetokenizeRequest(token_ids=token_ids, skip_special=skip_special)
        return str((await self._ask("Detokenize", request, timeout)).text)

    async def model(self, *, timeout: float | None = None) -> ModelInfo:
        return model_from_proto(await self._ask("GetModel", pb.GetModelRequest(), timeout))

    async def status(self, *, timeout: float | None = None) -> pb.GetStatusResponse:
        """The verifier, its drafters and its sessions at this moment."""
        response: pb.GetStatusResponse = await self._ask("GetStatus", pb.GetStatusRequest(),
                                                         timeout)
        return response

    def _stub(self) -> Any:
        """Opened by the first call, because a channel belongs to the running event loop."""
        if self._is_closed:
            raise Cancelled("the client is closed")
        if self._channel is None:
            connection = self._connection
            if connection.credentials is None:
                self._channel = grpc.aio.insecure_channel(connection.verifier, connection.options)
            else:
                self._channel = grpc.aio.secure_channel(connection.verifier,
                                                        connection.credentials, connection.options)
            make_stub: Any = generation_pb2_grpc.GenerationStub  # generated without types
            self._open_stub = make_stub(self._channel)
        return self._open_stub

    async def _ask(self, method: str, request: Any, timeout: float | None) -> Any:
        call = getattr(self._stub(), method)(request, **self._call_options(timeout))
        self._calls.add(call)
        try:
            return await call
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.CancelledError:
            if not self._is_closed:
                raise  # the task was cancelled
            raise Cancelled("the client is closed") from None

    def _call_options(self, timeout: float | None) -> dict[str, Any]:
        """Reads the token file on the event loop: a small local file takes less time than a thread
        does to begin, and `stream`, which must read it, too, does not wait.
        """
        return {"timeout": self._timeout if timeout is None else timeout,
                "metadata": self._connection.metadata()}
