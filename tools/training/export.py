"""Writes a checkpoint as an HF model folder with bfloat16 weights.

The folder holds `config.json`, `generation_config.json`, `model.safetensors`
and the tokenizer's files, and loads as LlamaForCausalLM.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import torch

from model import Config, Llama
from tokenizer import Tokenizer


def hf_tensors(model: Llama) -> dict[str, torch.Tensor]:
    """The weights under HF's names; the tied lm_head is left out, as HF does."""
    c = model.c
    tensors = {"model.embed_tokens.weight": model.embedding.weight}
    for n, block in enumerate(model.blocks):
        head_rows = [h * c.head_dim for h in (c.heads, c.kv_heads, c.kv_heads)]
        q, k, v = block.attention.qkv.weight.split(head_rows)
        gate, up = block.gate_up.weight.chunk(2)
        tensors |= {f"model.layers.{n}.{name}.weight": tensor for name, tensor in {
            "input_layernorm": block.attention_norm.weight,
            "self_attn.q_proj": q,
            "self_attn.k_proj": k,
            "self_attn.v_proj": v,
            "self_attn.o_proj": block.attention.out.weight,
            "post_attention_layernorm": block.mlp_norm.weight,
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": block.down.weight,
        }.items()}
    tensors["model.norm.weight"] = model.norm.weight
    return tensors


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        blob = tensor.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """A bfloat16 file's tensors, as float32."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        bits = np.frombuffer(raw[start + first:start + last], dtype=np.int16).copy()
        tensors[name] = torch.from_numpy(bits).view(torch.bfloat16).float().view(entry["shape"])
    return tensors


def config_json(c: Config, eos: int) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": c.vocab,
        "hidden_size": c.hidden,
        "intermediate_size": c.intermediate,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": c.max_positions,
        "rms_norm_eps": c.eps,
        "rope_theta": c.rope_theta,
        "rope_scaling": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "initializer_range": 0.02,
        "pretraining_tp": 1,
        "tie_word_embeddings": True,
        "use_cache": True,
        "bos_token_id": eos,
        "eos_token_id": eos,
        "torch_dtype": "bfloat16",
    }


def load_folder(folder: Path) -> Llama:
    """The model of an exported folder, with its bfloat16 weights as float32."""
    config = json.loads((folder / "config.json").read_text())
    model = Llama(Config(
        vocab=config["vocab_size"], hidden=config["hidden_size"],
        layers=config["num_hidden_layers"], heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
        intermediate=config["intermediate_size"],
        max_positions=config["max_position_embeddings"],
        rope_theta=config["rope_theta"], eps=config["rms_norm_eps"],
    ))
    stored = read_safetensors(folder / "model.safetensors")
    with torch.no_grad():
        for name, view in hf_tensors(model).items():
            view.copy_(stored[name])
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    saved = torch.load(args.checkpoint)
    model = Llama(saved["config"])
    model.load_state_dict(saved["model"])
    eos = Tokenizer(args.tokenizer).eos
    args.out.mkdir(parents=True, exist_ok=True)
    generation = {"bos_token_id": eos, "eos_token_id": eos, "do_sample": True, "temperature": 1.0}
    for name, content in (("config.json", config_json(model.c, eos)),
                          ("generation_config.json", generation)):
        (args.out / name).write_text(json.dumps(content, indent=2) + "\n")
    write_safetensors(args.out / "model.safetensors", hf_tensors(model))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(args.tokenizer.with_name(name), args.out / name)
    print(f"{args.out}: {sum(p.numel() for p in model.parameters())} parameters, "
          f"{saved['step']} steps, {saved['seconds']:.0f} s")


if __name__ == "__main__":
    main()
