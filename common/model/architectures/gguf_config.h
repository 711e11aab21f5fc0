// What a GGUF file says of its model, in the words of a Hugging Face checkpoint: its metadata as a
// config.json, its tensors under the names that such a checkpoint has. Everything after that is as
// for a directory.
//
// llama.cpp's conversion changes some weights. Its gains of Gemma's norms are stored with the 1
// that others add; the rows of q and k of some architectures are reordered, because it rotates
// neighbours where others rotate the halves of a head. The experts of a layer are one tensor, which
// is taken apart again. Source: the conversion scripts and
// gguf-py/gguf/constants.py of https://github.com/ggml-org/llama.cpp.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/gguf/gguf_file.h"

namespace outrider {

// A tensor under the name that a checkpoint has for it.
struct GgufEntry {
  std::string name;   // "model.layers.0.self_attn.q_proj.weight"
  GgufTensor tensor;  // of the file, or an expert's part of one
  // Heads whose rows are interleaved: of each, rows 2 i and 2 i + 1 are rows i and size / 2 + i of
  // the checkpoint's. 0: rows are in the checkpoint's order.
  int64_t interleaved_heads = 0;
};

// As the text of a config.json, without checks of the values: those are config.cc's. kUnimplemented
// names an architecture, a key or a tensor that would change the computation and is not known.
Result<std::string> GgufConfigJson(const GgufFile& file);

// kUnimplemented for a tensor that the architecture does not have, kInvalidArgument for experts
// that are not as many as the file says.
Result<std::vector<GgufEntry>> GgufEntries(const GgufFile& file);

}  // namespace outrider
