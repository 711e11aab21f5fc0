// Reads and checks the Hugging Face files that describe a tokenizer. Every error names the file and
// the field. An unknown kind of normalizer, pre-tokenizer, model or decoder is kUnimplemented,
// because skipping a step would silently tokenize wrongly.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// For tokenizer.json and its companion files. The largest in use have 35 MB; parsed, a hostile one
// takes up to 24 times its size.
inline constexpr size_t kMaxTokenizerFileBytes = 64 << 20;
// Total length of all added tokens: the trie that finds them takes 64 bytes for each byte.
inline constexpr size_t kMaxAddedTokenBytes = 1 << 20;

Result<TokenizerSpec> ParseTokenizerJson(std::string_view json);

// What the companion files of tokenizer.json say; all are optional.
struct ModelRoles {
  std::optional<bool> add_bos;           // tokenizer_config.json: add_bos_token
  std::optional<bool> add_eos;           // tokenizer_config.json: add_eos_token
  std::optional<std::string> bos_token;  // tokenizer_config.json: bos_token
  std::optional<std::string> eos_token;  // tokenizer_config.json: eos_token
  std::optional<TokenId> bos_id;         // generation_config.json, else config.json
  std::vector<TokenId> eos_ids;          // generation_config.json, else config.json
};

Result<ModelRoles> ReadModelRoles(const std::filesystem::path& model_dir);

// added_tokens_decoder of tokenizer_config.json, or else the list in added_tokens.json, which has
// no flags: its tokens are special if they look like it, "<|im_end|>". Sorted by id.
Result<std::vector<AddedTokenSpec>> ReadAddedTokensOf(const std::filesystem::path& model_dir);

}  // namespace outrider
