// Checks what a path given as a model is, before anything large is read.
//
// Thread: any.
#pragma once

#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Checks whether `path` is a directory that Outrider serves: config.json of a supported
// architecture, weights as safetensors with all of their files, tokenizer.json or tokenizer.model,
// checked in this order; or a GGUF file of a supported architecture, or a directory with one.
// Otherwise the error says what was found (a LoRA adapter, pickled weights, a name of the Hub, ...)
// and what to do about it: kNotFound, kInvalidArgument, kUnimplemented or kDataLoss.
Status CheckModelDirectory(const std::filesystem::path& path);

}  // namespace outrider
