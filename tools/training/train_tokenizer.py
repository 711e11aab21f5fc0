"""Trains the 4,096-entry byte-level BPE tokenizer of the default pair.

Counts pairs over the distinct pre-tokens of the corpus and of as much generated
text and, after each merge, updates only the words that held the merged pair. Writes
HF's `tokenizer.json` and `tokenizer_config.json`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

import regex

import synthesis
from data import CORPUS_DOMAINS, read_documents
from tokenizer import (
    END_OF_TEXT,
    SPECIAL,
    SPLIT_PATTERN,
    TURN_END,
    TURN_START,
    byte_alphabet,
    merge,
)

VOCAB_SIZE = 4096
GENERATED = 4000  # documents of each domain
# ChatML, with the token that opens every text in front.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '"
    + TURN_START
    + "' + message['role'] + '\n' + "
    "message['content'] + '" + TURN_END + "\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + TURN_START + "assistant\n' }}{% endif %}"
)


def learn_merges(word_counts: Counter[str], count: int) -> list[tuple[str, str]]:
    alphabet = byte_alphabet()
    words = [[alphabet[b] for b in w.encode("utf-8")] for w in word_counts]
    freqs = list(word_counts.values())
    pair_counts: Counter[tuple[str, str]] = Counter()
    where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for n, parts in enumerate(words):
        for pair in zip(parts, parts[1:]):
            pair_counts[pair] += freqs[n]
            where[pair].add(n)

    merges: list[tuple[str, str]] = []
    for _ in range(count):
        # The most frequent pair; among equals the one that sorts first.
        best = min(pair_counts, key=lambda p: (-pair_counts[p], p))
        merges.append(best)
        for n in where.pop(best):
            old, new = words[n], merge(words[n], best)
            for pair in zip(old, old[1:]):
                pair_counts[pair] -= freqs[n]
            for pair in zip(new, new[1:]):
                pair_counts[pair] += freqs[n]
                where[pair].add(n)
            words[n] = new
        del pair_counts[best]
    return merges


def tokenizer_json(merges: list[tuple[str, str]]) -> dict:
    symbols = sorted(byte_alphabet()) + [a + b for a, b in merges]
    vocab = {s: n for n, s in enumerate(symbols)}
    assert len(vocab) == VOCAB_SIZE - len(SPECIAL), "two merges gave the same symbol"
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": SPLIT_PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": len(vocab) + n,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for n, token in enumerate(SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [f"{a} {b}" for a, b in merges],
        },
    }


def tokenizer_config() -> dict:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": True,
        "add_prefix_space": False,
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
        "chat_template": CHAT_TEMPLATE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    split = regex.compile(SPLIT_PATTERN)
    counts: Counter[str] = Counter()
    for domain in CORPUS_DOMAINS:
        for document in read_documents(args.corpus / f"{domain}.txt"):
            counts.update(split.findall(document))
    for domain in synthesis.DOMAINS:
        for index in range(GENERATED):
            text = synthesis.document(domain, synthesis.TRAIN, 0, index).text
            for token in SPECIAL:
                text = text.replace(token, "")
            counts.update(split.findall(text))
    merges = learn_merges(counts, VOCAB_SIZE - len(SPECIAL) - 256)

    args.out.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("tokenizer_config.json", tokenizer_config()),
        ("tokenizer.json", tokenizer_json(merges)),  # last: with it train_pair.py goes on
    ):
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (args.out / name).write_text(text + "\n", encoding="utf-8")
    print(f"{len(counts)} distinct words, {len(merges)} merges")


if __name__ == "__main__":
    main()
