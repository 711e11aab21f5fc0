#!/usr/bin/env python3
"""Times forward passes of Hugging Face transformers for cpu_race.py with its defaults:
scaled-dot-product attention, a dynamic cache."""
import race_turns

try:
    import torch
    import transformers
except ImportError as error:
    race_turns.skip(str(error))


class Passes:
    def __init__(self, args):
        if args.precision == "int8":
            race_turns.skip("transformers has no 8-bit products of its own on a CPU")
        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.precision]
        model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype)
        self.model = model.eval()
        self.cache = None
        self.context = 0

    def tokens(self, sequences: int, rows: int):
        return (torch.arange(sequences * rows).reshape(sequences, rows)
                % self.model.config.vocab_size)

    def prepare(self, sequences: int, rows: int, context: int):
        self.context = context
        self.cache = transformers.DynamicCache(config=self.model.config)
        if context > 0:
            self.model(self.tokens(1, context), past_key_values=self.cache, logits_to_keep=1)
            self.cache.batch_repeat_interleave(sequences)
        tokens = self.tokens(sequences, rows)
        return lambda: self.model(tokens, past_key_values=self.cache,
                                  logits_to_keep=rows if context else 1)

    def restore(self) -> None:
        if self.context > 0:
            self.cache.crop(self.context)
        else:
            self.cache = transformers.DynamicCache(config=self.model.config)


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
passes = Passes(race_turns.flags(__doc__))
race_turns.serve(f"transformers {transformers.__version__}, torch {torch.__version__}",
                 passes.prepare, passes.restore)
