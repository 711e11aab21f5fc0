"""What a verifier answers, as plain values."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.v1 import generation_pb2 as pb


class FinishReason(enum.Enum):
    STOP = "stop"  # an end-of-sequence token, a stop token or a stop string
    LENGTH = "length"  # max_tokens, or the end of the context or of the KV cache
    UNSPECIFIED = "unspecified"


_REASONS = {pb.Finished.REASON_STOP: FinishReason.STOP,
            pb.Finished.REASON_LENGTH: FinishReason.LENGTH}


@dataclass(frozen=True)
class TokenLogprobs:
    """Log probabilities at one position under the model's own distribution."""

    logprob: float
    rank: int  # 1: the most likely token
    top: tuple[tuple[int, float], ...]  # most likely tokens with theirs, best first


@dataclass(frozen=True)
class Chunk:
    """The tokens of one round. `text` never splits a character and may lag behind the ids."""

    text: str
    token_ids: tuple[int, ...]
    accepted: int  # how many of token_ids, the first ones, are draft tokens
    drafted: int  # tokens drafted for the round
    logprobs: tuple[TokenLogprobs, ...]  # of token_ids, if requested
    prompt_logprobs: tuple[TokenLogprobs, ...]  # in the first chunk, if requested


@dataclass(frozen=True)
class Arm:
    """Rounds of one choice of the server: a proposer with a length and a number of sequences."""

    name: str
    rounds: int


@dataclass(frozen=True)
class SpeculationStats:
    rounds: int  # forward passes that produced tokens, plain ones among them
    drafted_rounds: int
    drafted_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...]
    arms: tuple[Arm, ...]
    arm_switches: int
    forced_tokens: int  # by the request's grammar; these are not draft tokens


@dataclass(frozen=True)
class Timing:
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float


@dataclass(frozen=True)
class Finished:
    """The end of a text."""

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int  # prompt tokens found in the prefix cache
    seed: int
    speculation: SpeculationStats
    timing: Timing


@dataclass(frozen=True)
class Result:
    """A whole text."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...]
    prompt_logprobs: tuple[TokenLogprobs, ...]
    finished: Finished


@dataclass(frozen=True)
class ModelInfo:
    name: str
    architecture: str
    vocab_size: int
    max_context: int  # prompt and completion together
    eos_token_ids: tuple[int, ...]


def join(chunks: Sequence[Chunk], finished: Finished) -> Result:
    return Result(text="".join(chunk.text for chunk in chunks),
                  token_ids=tuple(token for chunk in chunks for token in chunk.token_ids),
                  logprobs=tuple(entry for chunk in chunks for entry in chunk.logprobs),
                  prompt_logprobs=chunks[0].prompt_logprobs if chunks else (),
                  finished=finished)


def chunk_from_proto(proto: pb.TokenChunk) -> Chunk:
    return Chunk(text=proto.text, token_ids=tuple(proto.token_ids), accepted=proto.accepted,
                 drafted=proto.drafted, logprobs=tuple(map(_logprobs, proto.logprobs)),
                 prompt_logprobs=tuple(map(_logprobs, proto.prompt_logprobs)))


def finished_from_proto(proto: pb.Finished) -> Finished:
    spec = proto.speculation
    stats = SpeculationStats(
        rounds=spec.rounds, drafted_rounds=spec.drafted_rounds, drafted_tokens=spec.drafted_tokens,
        accepted_tokens=spec.accepted_tokens,
        accepted_per_position=tuple(spec.accepted_per_position),
        arms=tuple(Arm(arm.arm, arm.rounds) for arm in spec.arms), arm_switches=spec.arm_switches,
        forced_tokens=spec.forced_tokens)
    timing = Timing(proto.timing.queue_seconds, proto.timing.prefill_seconds,
                    proto.timing.decode_seconds)
    return Finished(reason=_REASONS.get(proto.reason, FinishReason.UNSPECIFIED),
                    prompt_tokens=proto.prompt_tokens, completion_tokens=proto.completion_tokens,
                    cached_tokens=proto.cached_tokens, seed=proto.seed, speculation=stats,
                    timing=timing)


def model_from_proto(proto: pb.GetModelResponse) -> ModelInfo:
    return ModelInfo(name=proto.name, architecture=proto.architecture, vocab_size=proto.vocab_size,
                     max_context=proto.max_context, eos_token_ids=tuple(proto.eos_token_ids))


def _logprobs(proto: pb.TokenLogprobs) -> TokenLogprobs:
    return TokenLogprobs(logprob=proto.logprob, rank=proto.rank,
                         top=tuple(zip(proto.top_token_ids, proto.top_logprobs)))
