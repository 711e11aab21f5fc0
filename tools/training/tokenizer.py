"""Byte-level BPE encoder and decoder over an HF `tokenizer.json`.

The training scripts use it to turn the corpus into ids, and `reference.py` to
write the vectors that the C++ tokenizer is checked against.
"""

from __future__ import annotations

import json
from pathlib import Path

import regex

END_OF_TEXT = "<|endoftext|>"
TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
SPECIAL = (TURN_START, TURN_END, END_OF_TEXT)  # the last ids, in this order

MAX_CACHED_WORDS = 200_000

# Qwen2's split pattern: words with at most one leading character, single digits,
# runs of punctuation, line breaks, and spaces.
SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for each of the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in table)
    table.update({byte: chr(256 + n) for n, byte in enumerate(others)})
    return [table[byte] for byte in range(256)]


class Tokenizer:
    def __init__(self, path: Path):
        spec = json.loads(Path(path).read_text(encoding="utf-8"))
        self.vocab: dict[str, int] = spec["model"]["vocab"]
        self.ranks = {tuple(m.split(" ")): n for n, m in enumerate(spec["model"]["merges"])}
        self.special = {t["content"]: t["id"] for t in spec["added_tokens"]}
        self.size = len(self.vocab) + len(self.special)
        self.eos = self.special[END_OF_TEXT]
        self._split = regex.compile(SPLIT_PATTERN)
        self._to_char = byte_alphabet()
        to_byte = {c: b for b, c in enumerate(self._to_char)}
        self._bytes = {i: bytes(to_byte[c] for c in t) for t, i in self.vocab.items()}
        self._bytes.update({i: t.encode() for t, i in self.special.items()})
        self._cache: dict[str, list[int]] = {}
        self._special_split = regex.compile("(" + "|".join(map(regex.escape, self.special)) + ")")

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, in which no special token is recognised."""
        ids: list[int] = []
        cache = self._cache
        for word in self._split.findall(text):
            known = cache.get(word)
            if known is None:
                known = self._encode_word(word)
                if len(cache) < MAX_CACHED_WORDS:
                    cache[word] = known
            ids += known
        return ids

    def encode_chat(self, text: str) -> list[int]:
        """Ids of `text` with its special tokens."""
        ids: list[int] = []
        for part in self._special_split.split(text):
            ids += [self.special[part]] if part in self.special else self.encode(part)
        return ids

    def _encode_word(self, word: str) -> list[int]:
        parts = [self._to_char[b] for b in word.encode("utf-8")]
        while len(parts) > 1:
            pairs = list(zip(parts, parts[1:]))
            best = min(pairs, key=lambda p: self.ranks.get(p, len(self.ranks)))
            if best not in self.ranks:
                break
            parts = merge(parts, best)
        return [self.vocab[p] for p in parts]

    def decode(self, ids: list[int]) -> str:
        return b"".join(self._bytes[i] for i in ids).decode("utf-8", errors="replace")


def merge(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """`parts` with each occurrence of `pair`, from the left, made one."""
    out: list[str] = []
    n = 0
    while n < len(parts):
        if n + 1 < len(parts) and parts[n] == pair[0] and parts[n + 1] == pair[1]:
            out.append(parts[n] + parts[n + 1])
            n += 2
        else:
            out.append(parts[n])
            n += 1
    return out
