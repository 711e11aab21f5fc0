// Converts a SentencePiece vocabulary (pieces with scores) to what a tokenizer.json would contain:
// BPE merges are derived from the scores, as the Hugging Face library's conversion does.
//
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// Longer pieces are refused, because every way to cut one in two is considered. SentencePiece's own
// default limit is 16 characters; Gemma's runs of spaces have 93 bytes.
inline constexpr size_t kMaxPieceBytes = 256;

struct SentencePiece {
  // The values of sentencepiece_model.proto, which GGUF's token types share.
  enum class Type {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };
  std::string text;
  float score = 0;
  Type type = Type::kNormal;
};

// Fills `spec` with BPE over `pieces`, whose ids are their indices. Spaces become U+2581, and with
// `adds_space` one goes before a text. Characters without a piece become bytes if there is a piece
// for each byte, or else the unknown token. Control pieces become special added tokens,
// user-defined ones added tokens that are not special.
// kInvalidArgument: a text is not UTF-8, empty or too long, or there are two unknown pieces.
Status FillSentencePieceBpe(const std::vector<SentencePiece>& pieces, bool adds_space,
                            TokenizerSpec* spec);
// The same with Unigram instead of BPE.
Status FillSentencePieceUnigram(const std::vector<SentencePiece>& pieces, bool adds_space,
                                TokenizerSpec* spec);

}  // namespace outrider
