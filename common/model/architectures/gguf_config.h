// Translates a GGUF file to a Hugging Face checkpoint: its metadata to a config.json, its tensors'
// names to those of such a checkpoint. From there on it is loaded like a directory.
//
// llama.cpp's conversion changes some weights. The gains of Gemma's norms include the 1 that others
// add; the rows of q and k of some architectures are reordered, because it rotates neighbours where
// others rotate the halves of a head. The experts of a layer are one tensor, which is split again.
// Source: the conversion scripts and gguf-py/gguf/constants.py of
// https://github.com/ggml-org/llama.cpp.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/gguf/gguf_file.h"

namespace outrider {

// A tensor under its name in a checkpoint.
struct GgufEntry {
  std::string name;   // "model.layers.0.self_attn.q_proj.weight"
  GgufTensor tensor;  // the file's tensor, or one expert's part of it
  // Number of heads whose rows are interleaved: in each head, rows 2 i and 2 i + 1 are rows i and
  // size / 2 + i of the checkpoint. 0: rows are in the checkpoint's order.
  int64_t interleaved_heads = 0;
};

// The text of a config.json; its values are not checked here, but in config.cc. kUnimplemented
// names an unknown architecture, key or tensor that would change the computation.
Result<std::string> GgufConfigJson(const GgufFile& file);

// kUnimplemented for a tensor that the architecture does not have, kInvalidArgument if the number
// of experts differs from the file's metadata.
Result<std::vector<GgufEntry>> GgufEntries(const GgufFile& file);

}  // namespace outrider
