// Reads the tokenizer and the chat template of a GGUF file into the same structs as tokenizer.json
// and its companion files. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md ("Tokenizer").
//
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/gguf/gguf_file.h"
#include "common/text/tokenizer_json.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// kUnimplemented names an unknown kind of tokenizer or pre-tokenizer.
Result<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file);

// Which tokens end a text.
Result<ModelRoles> ReadGgufRoles(const GgufFile& file);

// Chat templates, and the tokens that they can write by a variable ("bos_token", "<s>").
struct GgufChat {
  std::optional<std::string> general;
  std::optional<std::string> tool_use;  // for chats with tools
  std::vector<std::pair<std::string, std::string>> special_tokens;
};
Result<GgufChat> ReadGgufChat(const GgufFile& file);

}  // namespace outrider
