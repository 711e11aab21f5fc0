// The same model with another vocabulary, for pairs whose tokens differ.
#pragma once

#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Writes to `to` the byte-level checkpoint `from` with its tokens in falling order of their ids:
// embeddings and special ids move along, so that it is the same model over text. Of the tokens that
// no other token is merged from, every eighth has a text that nobody writes, and the first special
// token another name. Needs one model.safetensors.
Status WriteOtherVocabulary(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace outrider
