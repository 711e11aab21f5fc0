// The tokenizer and the chat template that a GGUF file holds, as what tokenizer.json and the files
// beside it would say. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md ("Tokenizer").
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

// kUnimplemented names a kind of tokenizer or of pre-tokenizer that is not known here.
Result<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file);

// Which tokens end a text.
Result<ModelRoles> ReadGgufRoles(const GgufFile& file);

// Templates of chats, and the tokens that they may write by a variable ("bos_token", "<s>").
struct GgufChat {
  std::optional<std::string> general;
  std::optional<std::string> tool_use;  // for chats with tools
  std::vector<std::pair<std::string, std::string>> special_tokens;
};
Result<GgufChat> ReadGgufChat(const GgufFile& file);

}  // namespace outrider
