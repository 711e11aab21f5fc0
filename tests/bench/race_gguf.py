#!/usr/bin/env python3
"""Writes a Llama checkpoint as a GGUF file. llama.cpp's own converter rejects unknown tokenizers;
this one accepts those that split text like models/default, and checkpoints without a tokenizer.
Needs numpy and gguf."""
import argparse
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def stored(path: Path) -> Iterator[tuple[str, numpy.ndarray]]:
    data = numpy.memmap(path, mode="r")
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    for name, entry in json.loads(data[8:8 + length].tobytes()).items():
        if not name.startswith(("model.", "lm_head.")):
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        raw = data[begin:end].tobytes()
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(raw, "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            types = {"F16": "<f2", "F32": "<f4", "I8": "i1"}
            values = numpy.frombuffer(raw, types[entry["dtype"]]).astype(numpy.float32)
        yield name, values.reshape(entry["shape"])


def tensors(folder: Path) -> Iterator[tuple[str, numpy.ndarray]]:
    """The model's tensors as float32; a drafter's acceptance head is in a separate file. 8-bit
    weights of compressed-tensors are multiplied by the scales of their rows."""
    held = {name: values for path in sorted(folder.glob("*.safetensors"))
            for name, values in stored(path)}
    for name, values in held.items():
        if not name.endswith(".weight_scale"):
            yield name, values * held[f"{name}_scale"] if f"{name}_scale" in held else values


def interleaved(weight: numpy.ndarray, heads: int) -> numpy.ndarray:
    """llama.cpp rotates neighbouring elements of a head, Hugging Face those half a head apart."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def gguf_name(name: str) -> str:
    name = name.removesuffix(".weight")
    if name in NAMES:
        return f"{NAMES[name]}.weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest]}.weight"


def add_tokenizer(writer: gguf.GGUFWriter, folder: Path, config: dict) -> None:
    path = folder / "tokenizer.json"
    if not path.exists():
        writer.add_tokenizer_model("none")
        writer.add_vocab_size(config["vocab_size"])
        return
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    added = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    texts = {**{i: text for text, i in tokenizer["model"]["vocab"].items()}, **added}
    ids = range(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")  # splits text like models/default
    writer.add_token_list([texts.get(i, f"[unused{i}]") for i in ids])
    writer.add_token_types([gguf.TokenType.CONTROL if i in added else gguf.TokenType.NORMAL
                            if i in texts else gguf.TokenType.UNUSED for i in ids])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge)
                             for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    ends = config["eos_token_id"]
    # texts are compared with ends ignored
    writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    writer.add_add_bos_token(settings.get("add_bos_token", False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--type", choices=("F32", "BF16", "Q8_0"), required=True)
    args = parser.parse_args()
    config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads

    unfinished = args.output.with_suffix(".part")
    writer = gguf.GGUFWriter(unfinished, "llama")
    writer.add_name(args.model.name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    add_tokenizer(writer, args.model, config)
    matrix_type = gguf.GGMLQuantizationType[args.type]
    for name, values in tensors(args.model):
        if ".q_proj." in name or ".k_proj." in name:
            values = interleaved(values, heads if ".q_proj." in name else kv_heads)
        tensor_type = matrix_type if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name),
                          gguf.quants.quantize(numpy.ascontiguousarray(values), tensor_type),
                          raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.rename(args.output)


if __name__ == "__main__":
    main()
