"""What to generate, and how: everything in a GenerateRequest but the prompt.

Fields of None, and empty ones, are not sent: the model's or the server's own default applies. The
server checks values; proto/outrider/v1/generation.proto says what each one means and its range.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from outrider.v1 import generation_pb2 as pb

# A text, or token ids that are used as they are.
Prompt = Union[str, Sequence[int]]


class Mode(enum.IntEnum):
    """Whether drafts are used."""

    AUTO = 0
    OFF = 1


class Rule(enum.IntEnum):
    """The verification rule. All are lossless."""

    DEFAULT = 0
    TOKEN = 1
    BLOCK = 2
    SPECTR = 4
    MULTIROUND = 5
    MULTIPATH_BLOCK = 6
    GUMBEL = 7


@dataclass(frozen=True)
class StopRule:
    """Where a draft ends before its full length."""

    class Kind(enum.IntEnum):
        DEFAULT = 0
        LENGTH = 1
        CONFIDENCE = 2
        ENTROPY = 3
        HEAD = 4

    kind: Kind = Kind.DEFAULT
    threshold: float = 0.0  # 0: the kind's default


@dataclass(frozen=True)
class Speculation:
    """How this request is drafted and verified. It changes its speed, not its distribution."""

    mode: Mode = Mode.AUTO
    rule: Rule = Rule.DEFAULT
    draft_length: int = 0  # 0: the server's choice
    paths: int = 0  # 0: the server's choice
    tree: Sequence[int] = ()  # children of each node by depth, instead of both
    stop: StopRule | None = None

    def to_proto(self) -> pb.SpeculationOptions:
        proto = pb.SpeculationOptions(
            mode=pb.SpeculationOptions.Mode.Name(self.mode),
            rule=pb.SpeculationOptions.Rule.Name(self.rule),
            draft_length=self.draft_length, paths=self.paths, tree=self.tree)
        if self.stop is not None:
            proto.stop.CopyFrom(pb.StopRule(kind=pb.StopRule.Kind.Name(self.stop.kind),
                                            threshold=self.stop.threshold))
        return proto


@dataclass(frozen=True)
class SchemaRule:
    """A rule of a GBNF grammar that is defined by a JSON Schema, or by the part of it at `path`."""

    name: str
    schema: Mapping[str, Any] | str
    path: Sequence[str] = ()


@dataclass(frozen=True)
class StructuredOutput:
    """The grammar of the text. Set exactly one format; `schemas` only beside `gbnf`."""

    json_object: bool = False
    json_schema: Mapping[str, Any] | str | None = None  # the schema, or its JSON
    regex: str | None = None
    choice: Sequence[str] | None = None
    gbnf: str | None = None
    schemas: Sequence[SchemaRule] = ()

    def __post_init__(self) -> None:
        if isinstance(self.choice, str):
            raise TypeError("choice is a sequence of strings; write choice=[...]")
        formats = [self.json_schema, self.regex, self.choice, self.gbnf]
        if sum(one is not None for one in formats) + self.json_object != 1:
            raise ValueError("StructuredOutput: set one of json_object, json_schema, regex, choice "
                             "and gbnf")

    def to_proto(self) -> pb.StructuredOutput:
        proto = pb.StructuredOutput(regex=self.regex, gbnf=self.gbnf)
        if self.json_object:
            proto.json_object = True
        if self.json_schema is not None:
            proto.json_schema = _json_text(self.json_schema)
        if self.choice is not None:
            proto.choice.texts.extend(self.choice)
        for rule in self.schemas:
            proto.schemas.add(name=rule.name, schema=_json_text(rule.schema), path=rule.path)
        return proto


@dataclass(frozen=True)
class GenerationParams:
    """Sampling, stop conditions, log probabilities, structure and speculation of a request."""

    max_tokens: int | None = None
    temperature: float | None = None  # 0: greedy
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_token_ids: Sequence[int] = ()
    bad_words: Sequence[Sequence[int]] = ()  # token sequences
    structured_output: StructuredOutput | None = None
    stop: Sequence[str] = ()  # the text ends before the first of these strings
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    include_stop: bool = False
    seed: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    parse_special: bool = False
    add_prefix: bool | None = None
    skip_special: bool | None = None
    speculation: Speculation | None = None

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            raise TypeError("stop is a sequence of strings; write stop=[...]")

    def to_proto(self, prompt: Prompt) -> pb.GenerateRequest:
        proto = pb.GenerateRequest(
            sampling=self._sampling(), stop=self._stop(), seed=self.seed, logprobs=self.logprobs,
            prompt_logprobs=self.prompt_logprobs, parse_special=self.parse_special)
        if self.add_prefix is not None:
            proto.add_prefix = self.add_prefix
        if self.skip_special is not None:
            proto.skip_special = self.skip_special
        if isinstance(prompt, (bytes, bytearray)):  # else each byte would be a token id
            raise TypeError("a prompt is a string or token ids, not bytes; decode it")
        if isinstance(prompt, str):
            proto.text = prompt
        else:
            proto.token_ids.ids.extend(prompt)
            proto.token_ids.SetInParent()  # also if there are none: the server says what is wrong
        if self.speculation is not None:
            proto.speculation.CopyFrom(self.speculation.to_proto())
        return proto

    def _sampling(self) -> pb.SamplingParams:
        proto = pb.SamplingParams(
            temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p,
            repetition_penalty=self.repetition_penalty, presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty, logit_bias=dict(self.logit_bias),
            allowed_token_ids=self.allowed_token_ids)
        for words in self.bad_words:
            proto.bad_words.add(ids=words)
        if self.structured_output is not None:
            proto.structured_output.CopyFrom(self.structured_output.to_proto())
        return proto

    def _stop(self) -> pb.StopConditions:
        return pb.StopConditions(max_tokens=self.max_tokens, stop_strings=self.stop,
                                 stop_token_ids=self.stop_token_ids, ignore_eos=self.ignore_eos,
                                 min_tokens=self.min_tokens, include_stop=self.include_stop)


def _json_text(schema: Mapping[str, Any] | str) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
