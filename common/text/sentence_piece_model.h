// Reads tokenizer.model, the SentencePiece library's file: a protocol buffer of the message
// ModelProto. https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
//
// Only a few of its many fields affect how texts are tokenized, so the wire format is parsed here
// directly (https://protobuf.dev/programming-guides/encoding). Other fields are skipped, as
// protocol buffers require.
//
// Thread: any.
#pragma once

#include <filesystem>
#include <string_view>

#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// kInvalidArgument: the file is malformed. kUnimplemented: a model of words or characters, or an
// unsupported option.
Result<TokenizerSpec> ParseSentencePieceModel(std::string_view bytes);

// Adds the tokens from files beside tokenizer.model: added_tokens_decoder of tokenizer_config.json,
// and added_tokens.json. Both are optional.
Status ReadAddedTokensBeside(const std::filesystem::path& model_dir, TokenizerSpec* spec);

}  // namespace outrider
