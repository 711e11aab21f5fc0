// Reads tokenizer.model, the file of the SentencePiece library: a protocol buffer of the message
// ModelProto. https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
//
// Of its many fields a handful says how texts are tokenized, so the wire format is read here by
// itself (https://protobuf.dev/programming-guides/encoding); fields that others have added are
// skipped, as protocol buffers ask for.
//
// Thread: any.
#pragma once

#include <filesystem>
#include <string_view>

#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// kInvalidArgument for a file that is malformed, kUnimplemented for a model of words or characters
// and for options that are not supported.
Result<TokenizerSpec> ParseSentencePieceModel(std::string_view bytes);

// Adds the tokens that files beside tokenizer.model add: added_tokens_decoder of
// tokenizer_config.json, and added_tokens.json. Both may be missing.
Status ReadAddedTokensBeside(const std::filesystem::path& model_dir, TokenizerSpec* spec);

}  // namespace outrider
