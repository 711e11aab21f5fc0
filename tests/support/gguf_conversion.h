// Converts test checkpoints to GGUF files, as llama.cpp does. Shares no code with common/gguf and
// common/model.
#pragma once

#include <filesystem>
#include <string>

#include "common/base/status.h"

namespace outrider {

struct GgufOptions {
  std::string type = "F32";  // for matrices
  // For the matrices v, down and token_embd, as in llama.cpp's mixed types; "": as `type`.
  std::string finer_type;
  std::string pre = "gpt-2";  // tokenizer.ggml.pre
  bool tokenizer = false;     // writes tokenizer.json's, which must be byte-level
  std::string experts;        // the type of a mixture's experts; "": as of other matrices
};

// Writes `to` from the directory's config.json, model.safetensors and tokenizer.json, as the
// conversion does: reordered rows of q and k, Gemma's norms with their 1 added, a layer's experts
// as one tensor, RoPE factors as tensors. The directory's weights are replaced by the file's values
// in F32, for a reference model to read.
Status WriteGguf(const std::filesystem::path& directory, const std::filesystem::path& to,
                 const GgufOptions& options);

}  // namespace outrider
