// The same model with another vocabulary, for pairs with different tokens.
#pragma once

#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Writes to `to` the byte-level checkpoint `from` with its token ids in reverse order: embeddings
// and special ids are permuted, too, so that it is the same model of text. Among the tokens from
// which no other token is merged, every eighth gets a text that never occurs, and the first special
// token gets another name. Requires a single model.safetensors.
Status WriteOtherVocabulary(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace outrider
