#!/usr/bin/env python3
"""Greedy texts by Hugging Face transformers for cpu_race.py: `generate` alone and with an
assistant, one thread."""
import argparse
import json
import sys
from pathlib import Path

import race_turns

try:
    import torch
    import transformers
except ImportError as error:
    race_turns.skip(str(error))


def load(folder: str, dtype):
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    except Exception as error:  # the errors for unsupported configurations have many types
        race_turns.skip(f"transformers {transformers.__version__} refuses {folder}: {error}")
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=0, eos_token_id=None, do_sample=False)
    return model


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("target")
parser.add_argument("drafter")
parser.add_argument("--precision", choices=("f32", "bf16"), required=True)
parser.add_argument("--tokens", type=int, required=True)
parser.add_argument("--draft", type=int, required=True, help="draft tokens a round")
args = parser.parse_args()
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
precision = {"f32": torch.float32, "bf16": torch.bfloat16}[args.precision]
target, drafter = load(args.target, precision), load(args.drafter, precision)
drafter.generation_config.num_assistant_tokens = args.draft
drafter.generation_config.num_assistant_tokens_schedule = "constant"
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{args.target}/tokenizer.json")
# The class ignores its settings in tokenizer_config.json.
settings = json.loads((Path(args.target) / "tokenizer_config.json").read_text(encoding="utf-8"))
first = settings["bos_token"] if settings.get("add_bos_token") else ""
print(json.dumps(
    {"version": f"transformers {transformers.__version__}, torch {torch.__version__}"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    prompt = tokenizer(first + request["prompt"], return_tensors="pt", return_token_type_ids=False)
    assistant = {"assistant_model": drafter} if request["speculative"] else {}
    texts = target.generate(**prompt, max_new_tokens=args.tokens, **assistant)
    text = texts[0, prompt["input_ids"].shape[1]:]
    print(json.dumps({"text": tokenizer.decode(text), "tokens": len(text)}), flush=True)
