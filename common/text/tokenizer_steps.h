// Reads the parts of a tokenizer.json that rewrite and split a text: the normalizer, the
// pre-tokenizer and the decoder. For tokenizer_json.cc.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/json/json.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// The elements of a Sequence, or the node itself.
Result<std::vector<JsonValue>> TokenizerSteps(const JsonValue& root, const char* list_key);

Status UnknownStep(const JsonValue& step, const std::string& type);

Status ParseNormalizer(const JsonValue& root, TokenizerSpec& spec);
Status ParsePreTokenizer(const JsonValue& root, TokenizerSpec& spec);
// Sets `byte_fallback` if the decoder falls back to bytes.
Status ParseDecoder(const JsonValue& root, TokenizerSpec& spec, bool& byte_fallback);

}  // namespace outrider
