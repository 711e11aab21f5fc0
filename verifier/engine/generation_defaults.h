// Sampling defaults from a model's generation_config.json or GGUF file, for requests that leave a
// field out, as in vLLM.
//
// Thread: any.
#pragma once

#include <filesystem>

#include "common/base/status.h"
#include "verifier/engine/request.h"

namespace outrider {

// Reads temperature, top_k, top_p, min_p, repetition_penalty and max_new_tokens (null counts as
// absent), and logs which it takes and which fields it does not know. Without the file there are no
// defaults. do_sample is ignored, as in vLLM: most checkpoints that are meant to be sampled leave
// it out, although its default is false.
//
// From a GGUF file it takes general.sampling.temp, top_k, top_p, min_p and penalty_repeat.
//
// kInvalidArgument, with the field and the remedy, for a value of another type or out of range.
Result<GenerationDefaults> LoadGenerationDefaults(const std::filesystem::path& model_dir);

}  // namespace outrider
