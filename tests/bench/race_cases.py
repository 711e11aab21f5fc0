"""What cpu_race.py measures: forward passes of a shape, and texts by a pair of models."""
import dataclasses

CONTEXT = 128  # cached tokens of each sequence before a decode or verification pass


@dataclasses.dataclass(frozen=True)
class Case:
    """decode: a pass over `size` sequences with one new token each. verify: one over one sequence
    with `size` new tokens and the logits of all of them. prefill: one over one empty sequence with
    `size` tokens. plain, speculative: one token of a text, one request at a time."""
    kind: str
    size: int = 1

    def __str__(self) -> str:
        return f"{self.kind} {self.size}" if self.is_pass else self.kind

    @property
    def is_pass(self) -> bool:
        return self.kind in ("decode", "verify", "prefill")

    @property
    def sequences(self) -> int:
        return self.size if self.kind == "decode" else 1

    @property
    def rows(self) -> int:
        """New tokens per sequence."""
        return self.size if self.kind in ("verify", "prefill") else 1

    @property
    def context(self) -> int:
        return CONTEXT if self.kind in ("decode", "verify") else 0

    def request(self, passes: int) -> str:
        """The line that pass_bench and the other scripts read. A prefill is long enough to be
        measured by one pass."""
        repeated = 1 if self.kind == "prefill" else passes
        return f"{self.sequences} {self.rows} {self.context} {repeated}"


def parse_case(text: str) -> Case:
    kind, _, size = text.partition(" ")
    return Case(kind, int(size or 1))


def pass_cases(batches: list[int], rows: list[int], prefill: int) -> list[Case]:
    return [*(Case("decode", n) for n in batches), Case("prefill", prefill),
            *(Case("verify", n) for n in rows)]


TEXT_CASES = [Case("plain"), Case("speculative")]
