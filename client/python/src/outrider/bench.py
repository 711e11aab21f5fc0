"""Closed-loop load: which requests are made, and what is computed from their records.

No I/O and no clock; Client.bench and AsyncClient.bench make the calls.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from outrider.errors import OutriderError
from outrider.params import GenerationParams, Prompt
from outrider.results import Chunk, Finished

MAX_CONCURRENCY = 1024


@dataclass(frozen=True)
class Percentiles:
    """Linear interpolation between the closest ranks; all NaN if nothing was measured."""

    mean: float = math.nan
    p50: float = math.nan
    p95: float = math.nan
    p99: float = math.nan

    @staticmethod
    def of(values: Sequence[float]) -> Percentiles:
        if not values:
            return Percentiles()
        ordered = sorted(values)

        def at(quantile: float) -> float:
            place = quantile * (len(ordered) - 1)
            low, high = math.floor(place), math.ceil(place)
            return ordered[low] + (place - low) * (ordered[high] - ordered[low])

        return Percentiles(sum(ordered) / len(ordered), at(0.5), at(0.95), at(0.99))


@dataclass(frozen=True)
class BenchSummary:
    """Times are in milliseconds, and of requests that succeeded.

    `itl_ms`: each token of a chunk after the first counts an equal share of the time since the
    chunk before it.
    """

    requests: int
    failed: int
    errors: dict[str, int]  # failed requests by gRPC code
    seconds: float  # from the first request's start to the last one's end
    completion_tokens: int
    tokens_per_second: float
    requests_per_second: float
    ttft_ms: Percentiles  # time to the first token
    itl_ms: Percentiles  # between tokens
    latency_ms: Percentiles  # whole requests
    rounds: int
    drafted_tokens: int
    accepted_tokens: int

    def __str__(self) -> str:
        def line(name: str, times: Percentiles) -> str:
            if math.isnan(times.mean):
                return f"{name}: -"
            return (f"{name}: mean {times.mean:.1f}, p50 {times.p50:.1f}, p95 {times.p95:.1f}, "
                    f"p99 {times.p99:.1f} ms")

        failures = ", ".join(f"{count} {code}" for code, count in sorted(self.errors.items()))
        return "\n".join([
            f"{self.requests} requests in {self.seconds:.2f} s, {self.failed} failed"
            + (f" ({failures})" if failures else ""),
            f"{self.completion_tokens} tokens, {self.tokens_per_second:.1f} a second",
            line("time to first token", self.ttft_ms), line("between tokens", self.itl_ms),
            line("request", self.latency_ms),
            f"{self.accepted_tokens} of {self.drafted_tokens} draft tokens accepted in "
            f"{self.rounds} rounds"])


class BenchWork:
    """The requests of a benchmark; iterating from several threads hands out each index once."""

    def __init__(self, prompts: Sequence[Prompt], params: GenerationParams | None,
                 concurrency: int, requests: int | None) -> None:
        if isinstance(prompts, str):
            raise TypeError("prompts is a sequence of prompts; write prompts=[...]")
        if not prompts:
            raise ValueError("bench needs at least one prompt")
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            raise ValueError(f"concurrency is {concurrency}, but must be 1 to {MAX_CONCURRENCY}")
        if requests is not None and requests < 1:
            raise ValueError(f"requests is {requests}, but must be at least 1")
        self._prompts = prompts
        self._params = params or GenerationParams()
        self._lock = threading.Lock()
        self._next = 0
        self._end = len(prompts) if requests is None else requests
        self.concurrency = min(concurrency, self._end)

    def __iter__(self) -> Iterator[int]:
        while True:
            with self._lock:
                index = self._next
                self._next += 1
            if index >= self._end:
                return
            yield index

    def request(self, index: int) -> tuple[Prompt, GenerationParams]:
        params = self._params
        if params.seed is not None:
            params = dataclasses.replace(params, seed=params.seed + index)
        return self._prompts[index % len(self._prompts)], params


@dataclass
class RequestRecord:
    """What one request's client saw. Times are a monotonic clock's, in seconds."""

    start: float
    end: float = 0.0
    error: OutriderError | None = None
    finished: Finished | None = None
    ttft: float | None = None
    itl: list[float] = field(default_factory=list)
    _last: float = 0.0

    def on_chunk(self, now: float, chunk: Chunk) -> None:
        count = len(chunk.token_ids)
        if count == 0:
            return
        if self.ttft is None:
            self.ttft = now - self.start
        else:
            self.itl += [(now - self._last) / count] * count
        self._last = now

    def on_end(self, now: float, finished: Finished | None) -> None:
        self.end, self.finished = now, finished

    def on_error(self, now: float, error: OutriderError) -> None:
        self.end, self.error = now, error


def summarise(records: Sequence[RequestRecord], seconds: float) -> BenchSummary:
    done = [(record, record.finished) for record in records if record.finished is not None]
    errors = Counter(record.error.code.name for record in records if record.error is not None)
    tokens = sum(finished.completion_tokens for _, finished in done)
    stats = [finished.speculation for _, finished in done]
    return BenchSummary(
        requests=len(records), failed=sum(errors.values()), errors=dict(errors), seconds=seconds,
        completion_tokens=tokens, tokens_per_second=tokens / seconds if seconds > 0 else 0.0,
        requests_per_second=len(done) / seconds if seconds > 0 else 0.0,
        ttft_ms=_milliseconds([r.ttft for r, _ in done if r.ttft is not None]),
        itl_ms=_milliseconds([gap for r, _ in done for gap in r.itl]),
        latency_ms=_milliseconds([r.end - r.start for r, _ in done]),
        rounds=sum(s.rounds for s in stats), drafted_tokens=sum(s.drafted_tokens for s in stats),
        accepted_tokens=sum(s.accepted_tokens for s in stats))


def _milliseconds(values: Sequence[float]) -> Percentiles:
    return Percentiles.of([1e3 * value for value in values])
