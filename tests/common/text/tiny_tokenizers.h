// Small tokenizers for tests: tokenizer.json texts with a vocabulary that is easy to remember.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/text/tokenizer.h"

namespace outrider {

using MergeList = std::vector<std::pair<std::string, std::string>>;

// Byte level with GPT-2's pattern. Ids 0 to 255 are the bytes, 256 + i is the result of merge i.
std::string ByteLevelJson(const MergeList& merges);

// SentencePiece style, Prepend/Replace form with byte fallback. Ids: 0 <unk>, 1 <s>, 2 </s> (all
// special), 3 + b the byte b, 259 U+2581, 260 to 285 the letters a to z, 286 + i merge i.
std::string SentencePieceJson(const MergeList& merges);

// The same JSON with the value at a JSON pointer ("/model/unk_token") replaced or added; `value` is
// JSON. The pointer "/list/-" appends.
std::string With(const std::string& json, const std::string& pointer, const std::string& value);
std::string Without(const std::string& json, const std::string& pointer);

// An entry of added_tokens; `flags` are the fields that are true.
std::string AddedTokenJson(TokenId id, const std::string& content,
                           const std::vector<std::string>& flags = {});

// REQUIRES: the JSON is valid (otherwise the test fails).
std::unique_ptr<Tokenizer> MakeTokenizer(const std::string& json);

// Encodes a text, which must succeed.
std::vector<TokenId> Encoded(const Tokenizer& tokenizer, const std::string& text,
                             bool parse_special = false);

}  // namespace outrider
