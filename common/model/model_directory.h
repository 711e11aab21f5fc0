// Says of a path given as a model what it is, before anything large is read.
//
// Thread: any.
#pragma once

#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Whether `path` is a folder that Outrider serves: config.json of a known architecture, weights as
// safetensors with all of their files, tokenizer.json or tokenizer.model; judged in this order. Or
// a GGUF file of a known architecture, or a folder with one. Else what was found (a LoRA adapter,
// pickled weights, a name of the Hub, ...) and what to do about it: kNotFound, kInvalidArgument,
// kUnimplemented or kDataLoss.
Status CheckModelDirectory(const std::filesystem::path& path);

}  // namespace outrider
