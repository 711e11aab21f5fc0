"""Writes a checkpoint as an HF model folder, with bfloat16 or 8-bit weights.

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
from tokenizer import TURN_END, Tokenizer


def hf_tensors(model: Llama) -> dict[str, torch.Tensor]:
    """The weights under HF's names; the tied lm_head is left out, as HF does."""
    c = model.c
    tensors = {"model.embed_tokens.weight": model.embedding.weight}
    for n, block in enumerate(model.blocks):
        head_rows = [h * c.head_dim for h in (c.heads, c.kv_heads, c.kv_heads)]
        q, k, v = block.attention.qkv.weight.split(head_rows)
        gate, up = block.gate_up.weight.chunk(2)
        tensors |= {
            f"model.layers.{n}.{name}.weight": tensor
            for name, tensor in {
                "input_layernorm": block.attention_norm.weight,
                "self_attn.q_proj": q,
                "self_attn.k_proj": k,
                "self_attn.v_proj": v,
                "self_attn.o_proj": block.attention.out.weight,
                "post_attention_layernorm": block.mlp_norm.weight,
                "mlp.gate_proj": gate,
                "mlp.up_proj": up,
                "mlp.down_proj": block.down.weight,
            }.items()
        }
    tensors["model.norm.weight"] = model.norm.weight
    return tensors


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """int8 stays as it is; everything else is stored in bfloat16."""
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        kind = "I8" if tensor.dtype == torch.int8 else "BF16"
        raw = tensor if kind == "I8" else tensor.bfloat16().view(torch.int16)
        blob = raw.numpy().tobytes()
        header[name] = {
            "dtype": kind,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """A file's tensors, as float32; int8 weights are multiplied by their scales."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        kind = {"I8": np.int8, "BF16": np.int16}[entry["dtype"]]
        bits = torch.from_numpy(np.frombuffer(raw[start + first : start + last], dtype=kind).copy())
        values = bits.float() if entry["dtype"] == "I8" else bits.view(torch.bfloat16).float()
        tensors[name] = values.view(entry["shape"])
    for name in [n for n in tensors if n.endswith("_scale")]:
        tensors[name.removesuffix("_scale")] *= tensors.pop(name)
    return tensors


def quantize(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The layers' matrices in the layout of compressed-tensors: int8, symmetric, `weight_scale`
    [out, 1] for each output row. Embedding and norms stay in bfloat16."""
    out: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 1 or "embed_tokens" in name:
            out[name] = tensor
            continue
        # The scale is rounded first, so that the codes fit the one that is stored.
        scale = (tensor.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127).bfloat16().float()
        out[name] = (tensor / scale).round().clamp(-127, 127).to(torch.int8)
        out[name + "_scale"] = scale
    return out


INT8 = {"num_bits": 8, "type": "int", "symmetric": True, "group_size": None}
# What compressed-tensors writes into config.json for `quantize`. W8A8: activations are rounded
# as they come, each row with a scale of its own (`round_activations`).
QUANTIZATION = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "kv_cache_scheme": None,
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "input_activations": INT8 | {"strategy": "token", "dynamic": True},
            "output_activations": None,
            "weights": INT8 | {"strategy": "channel", "dynamic": False, "observer": "minmax"},
        }
    },
}


def config_json(c: Config, tokenizer: Tokenizer) -> dict:
    eos = tokenizer.eos
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
        "eos_token_id": end_ids(tokenizer),
        "torch_dtype": "bfloat16",
    }


def end_ids(tokenizer: Tokenizer) -> list[int]:
    """The tokens that end a text, and the one that ends a turn of a chat."""
    return [tokenizer.eos, tokenizer.special[TURN_END]]


def load_checkpoint(path: Path) -> tuple[Llama, dict]:
    """The model of a checkpoint of ours, and all that the file holds."""
    newer = {"weights_only": False} if torch.__version__ >= "2" else {}
    saved = torch.load(path, map_location="cpu", **newer)
    model = Llama(saved["config"])
    model.load_state_dict(saved["model"])
    return model, saved


def round_activations(_module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    """What a layer's matrix is multiplied with under W8A8: rows of 8-bit integers, as floats."""
    (x,) = inputs
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return ((x / scale).round() * scale,)


def load_folder(folder: Path, rounds_activations: bool = True) -> Llama:
    """The model of an exported folder, with its weights as float32. Where the folder is W8A8, the
    inputs of its 8-bit matrices are rounded as it says; or not, if not `rounds_activations`."""
    config = json.loads((folder / "config.json").read_text())
    model = Llama(
        Config(
            vocab=config["vocab_size"],
            hidden=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            intermediate=config["intermediate_size"],
            max_positions=config["max_position_embeddings"],
            rope_theta=config["rope_theta"],
            eps=config["rms_norm_eps"],
        )
    )
    stored = read_safetensors(folder / "model.safetensors")
    with torch.no_grad():
        for name, view in hf_tensors(model).items():
            view.copy_(stored[name])
    if rounds_activations and "quantization_config" in config:
        for block in model.blocks:
            for matrix in (block.attention.qkv, block.attention.out, block.gate_up, block.down):
                matrix.register_forward_pre_hook(round_activations)
    return model.eval()


def load_any(path: Path) -> Llama:
    """The model of an exported folder or of a checkpoint."""
    return load_folder(path) if path.is_dir() else load_checkpoint(path)[0].eval()


def write_folder(out: Path, model: Llama, tokenizer_path: Path, int8: bool = False) -> None:
    tokenizer = Tokenizer(tokenizer_path)
    out.mkdir(parents=True, exist_ok=True)
    config = config_json(model.c, tokenizer)
    generation = {
        "bos_token_id": tokenizer.eos,
        "eos_token_id": end_ids(tokenizer),
        "do_sample": True,
        "temperature": 0.8,
    }
    tensors = hf_tensors(model)
    if int8:
        config["quantization_config"] = QUANTIZATION
        tensors = quantize(tensors)
    for name, content in (("config.json", config), ("generation_config.json", generation)):
        (out / name).write_text(json.dumps(content, indent=2) + "\n")
    write_safetensors(out / "model.safetensors", tensors)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_path.with_name(name), out / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--int8",
        action="store_true",
        help="the layers' matrices and activations in 8 bits (compressed-tensors W8A8)",
    )
    args = parser.parse_args()

    model, saved = load_checkpoint(args.checkpoint)
    write_folder(args.out, model, args.tokenizer, args.int8)
    print(
        f"{args.out}: {sum(p.numel() for p in model.parameters())} parameters, "
        f"{saved['step']} steps, {saved['tokens']} tokens, {saved['seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
