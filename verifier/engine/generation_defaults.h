// What a model's generation_config.json, or its GGUF file, says of sampling: the defaults of
// requests that leave a field out, as in vLLM.
//
// Thread: any.
#pragma once

#include <filesystem>

#include "common/base/status.h"
#include "verifier/engine/request.h"

namespace outrider {

// Reads temperature, top_k, top_p, min_p, repetition_penalty and max_new_tokens (a null is as good
// as no field) and says in the log what it takes, and which fields it does not know. Without the
// file nothing is taken. do_sample is ignored, as vLLM ignores it: most checkpoints that are meant
// to be sampled leave it out, and its own default is false.
//
// Of a GGUF file general.sampling.temp, top_k, top_p, min_p and penalty_repeat are taken.
//
// kInvalidArgument, with the field and the way out, for a value of another type or out of range.
Result<GenerationDefaults> LoadGenerationDefaults(const std::filesystem::path& model_dir);

}  // namespace outrider
