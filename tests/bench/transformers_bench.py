#!/usr/bin/env python3
"""Tokens per second of Hugging Face transformers on the pair of pair_gpu_bench: `generate` alone
and with an assistant, greedy, with the same shapes, prompts, lengths and numbers of draft tokens.

Weights are random, so tokens are forced: the target's by their position, the assistant's to the
same token if the position's random number accepts it, otherwise to another one. Accepted tokens are
counted and must agree with the random numbers. Forcing costs transformers a write of one logit for
every token that a model processes, and a copy of its row.

Assisted generation supports one sequence at a time, so several sessions only run plain decoding.
Without torch or transformers, or without the device in torch, it prints "skipped" and exits with 0.
"""
import argparse
import json
import statistics
import sys
import time

from bench_support import table
from pair_cases import (Case, add_pair_flags, cases_of, draft_token_is_accepted, expect_counts,
                        median_ratio, parse_case)

try:
    import torch
    import transformers
except ImportError as error:
    torch, MISSING = None, str(error)

# Llama 3.1 8B and 3.2 1B, and the tiny pair of random_model.cc.
SHAPES = {
    "llama": [
        {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "tie_word_embeddings": False},
        {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "tie_word_embeddings": True}],
    "tiny": [
        {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": layers,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
         "tie_word_embeddings": tied}
        for layers, tied in ((2, False), (1, True))]}
VOCABULARY = {"llama": 128256, "tiny": 256}
POSITIONS = {"llama": 131072, "tiny": 2048}


def why_skipped(device: str) -> str | None:
    if torch is None:
        return MISSING
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            return f"torch {torch.__version__} sees no CUDA device"
        index = torch.device(device).index or 0
        if index >= torch.cuda.device_count():
            return f"torch sees {torch.cuda.device_count()} CUDA devices, not {device}"
    return None


def say_skipped(args, why: str) -> None:
    print(json.dumps({"skipped": why}) if args.turns else f"transformers_bench: skipped: {why}")


class ForcedTokens:
    """A logits processor. transformers applies the target's processors to the assistant as well, so
    Pair sets which of the two is calling."""

    def __init__(self, case: Case, args, vocabulary: int):
        self.prompt = args.prompt
        self.drafting = False
        # One more than requested: nothing after the end is read, but it may be computed.
        places = range(args.tokens + case.draft + 1)
        self.target = [2 + (7 * i + args.seed) % (vocabulary - 3) for i in places]
        self.draft = [token if draft_token_is_accepted(args.seed, 0, i, case.acceptance)
                      else token + 1
                      for i, token in enumerate(self.target)]

    def __call__(self, input_ids, scores):
        tokens = self.draft if self.drafting else self.target
        scores[:, tokens[input_ids.shape[1] - self.prompt]] = 1e30
        return scores


class RoundLog:
    """A stopping criterion that never stops: it is called after each round."""

    def __init__(self, sessions: int, device: str, synchronize):
        self.lengths: list[int] = []
        self.first = 0.0
        self.synchronize = synchronize
        self.never = torch.zeros(sessions, dtype=torch.bool, device=device)

    def __call__(self, input_ids, scores, **_):
        if not self.lengths:
            self.synchronize()
            self.first = time.perf_counter()
        self.lengths.append(input_ids.shape[1])
        return self.never


class Pair:
    def __init__(self, args):
        self.args = args
        if args.device == "cpu":
            torch.set_num_threads(args.threads)
        self.target = self._model(args.target, 0)
        self.drafter = self._model(args.drafter, 1)
        self.vocabulary = self.target.config.vocab_size
        self.forced: ForcedTokens | None = None
        self.drafted = 0
        self._generate_draft = self.drafter.generate
        self.drafter.generate = self._told_generate

    def _model(self, folder, index: int):
        dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[self.args.dtype]
        torch.manual_seed(1 + index)
        if folder is not None:
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
            model = model.to(self.args.device)
        else:
            shape = self.args.shape
            config = transformers.LlamaConfig(
                vocab_size=VOCABULARY[shape], max_position_embeddings=POSITIONS[shape],
                rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
                **SHAPES[shape][index])
            with torch.device(self.args.device):
                model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
        model.eval()
        model.generation_config = transformers.GenerationConfig(pad_token_id=0, eos_token_id=None,
                                                                do_sample=False)
        return model

    def _told_generate(self, **kwargs):
        if self.forced is not None:
            self.forced.drafting = True
        try:
            output = self._generate_draft(**kwargs)
        finally:
            if self.forced is not None:
                self.forced.drafting = False
        self.drafted += output.sequences.shape[1] - kwargs["input_ids"].shape[1]
        return output

    def synchronize(self) -> None:
        if self.args.device != "cpu":
            torch.cuda.synchronize(self.args.device)

    def describe(self) -> str:
        name = "cpu" if self.args.device == "cpu" else torch.cuda.get_device_name(self.args.device)
        return f"{name}, torch {torch.__version__}, transformers {transformers.__version__}"

    def prompts(self, sessions: int):
        rows = [[(11 + 37 * i + 101 * s) % (self.vocabulary - 2) + 2
                 for i in range(self.args.prompt)]
                for s in range(sessions)]
        return torch.tensor(rows, device=self.args.device)

    def run(self, case: Case) -> dict:
        args, prompts = self.args, self.prompts(case.sessions)
        log = RoundLog(case.sessions, args.device, self.synchronize)
        flags = {"attention_mask": torch.ones_like(prompts), "max_new_tokens": args.tokens,
                 "stopping_criteria": transformers.StoppingCriteriaList([log])}
        if case.draft > 0:
            settings = self.drafter.generation_config
            settings.num_assistant_tokens = case.draft
            settings.num_assistant_tokens_schedule = "constant"
            settings.assistant_confidence_threshold = 0.0
            flags["assistant_model"] = self.drafter
            if case.acceptance is not None:
                self.forced = ForcedTokens(case, args, self.vocabulary)
                flags["logits_processor"] = transformers.LogitsProcessorList([self.forced])
        elif args.cache == "static":
            flags["cache_implementation"] = "static"
        self.drafted = 0
        self.synchronize()
        start = time.perf_counter()
        texts = self.target.generate(prompts, **flags)
        self.synchronize()
        end = time.perf_counter()

        text = texts[0, args.prompt:].tolist()
        if self.forced is not None and text != self.forced.target[:args.tokens]:
            raise SystemExit(f"transformers, {case}: the text is not the one that was forced")
        self.forced = None
        emitted = [b - a for a, b in zip([args.prompt, *log.lengths], log.lengths)]
        timed = (log.lengths[-1] - log.lengths[0]) * case.sessions
        figures = {"first_seconds": log.first - start, "seconds": end - log.first, "tokens": timed,
                   "tokens_per_second": timed / (end - log.first),
                   "rounds": len(emitted) * case.sessions,
                   "drafted": self.drafted, "accepted": sum(emitted) - len(emitted), "text": text}
        expect_counts("transformers", case, figures, args.tokens, args.seed)
        return figures


def take_turns(pair: Pair) -> None:
    print(json.dumps({"ready": True, "device": pair.describe()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(pair.run(parse_case(line))), flush=True)


def bench(pair: Pair, args) -> None:
    # Cases alternate within a repetition, after one warm-up repetition.
    cases = [case for case in cases_of(args) if case.draft == 0 or case.sessions == 1]
    runs: dict[Case, list[dict]] = {case: [] for case in cases}
    for repetition in range(-1, args.repetitions):
        for case in cases:
            figures = pair.run(case)
            if repetition >= 0:
                runs[case].append(figures)
    rows, report = [], []
    for case, figures in runs.items():
        rates = [f["tokens_per_second"] for f in figures]
        plain = [f["tokens_per_second"] for f in runs[Case(case.sessions, 0)]]
        last = figures[-1]
        report.append({**case.describe(), "tokens_per_second": statistics.median(rates),
                       "over_plain": median_ratio(rates, plain), "all_tokens_per_second": rates,
                       **{name: last[name] for name in (
                           "rounds", "drafted", "accepted", "first_seconds")}})
        rows.append([str(case.sessions), str(case.draft), case.chance if case.draft else "-",
                     f"{last['accepted'] / last['rounds']:.2f}" if case.draft else "-",
                     f"{statistics.median(rates):.1f}", f"{median_ratio(rates, plain):.2f}"])
    print(pair.describe())
    print(table(["sessions", "draft", "acceptance", "accepted", "tokens/s", "of plain"], rows))
    if args.json:
        args.json.write_text(json.dumps({"device": pair.describe(), "dtype": args.dtype,
                                         "prompt": args.prompt, "tokens": args.tokens,
                                         "cache": args.cache, "cases": report}, indent=1),
                             encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pair_flags(parser)
    parser.add_argument("--cache", choices=("dynamic", "static"), default="dynamic",
                        help="of plain decoding; transformers compiles the static one's forward "
                             "pass on a GPU")
    parser.add_argument("--turns", action="store_true",
                        help="run nothing but what lines of standard input ask for, as "
                             "pair_gpu_bench does")
    args = parser.parse_args()
    why = why_skipped(args.device)
    if why is not None:
        say_skipped(args, why)
        return
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        pair = Pair(args)
    except torch.cuda.OutOfMemoryError as error:
        say_skipped(args, str(error).split(". ", maxsplit=1)[0])
        return
    if args.turns:
        take_turns(pair)
    else:
        bench(pair, args)


if __name__ == "__main__":
    main()
