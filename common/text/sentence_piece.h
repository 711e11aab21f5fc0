// A SentencePiece vocabulary (pieces with scores) as what a tokenizer.json would say: the merges of
// BPE follow from the scores, as the Hugging Face library's conversion derives them.
//
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// Longer pieces are refused: each way to cut one in two is looked at. SentencePiece's own limit is
// 16 characters where nobody raises it; Gemma's runs of spaces have 93 bytes.
inline constexpr size_t kMaxPieceBytes = 256;

struct SentencePiece {
  // Numbers of sentencepiece_model.proto, which GGUF's token types share.
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

// Fills `spec` with BPE over `pieces`, whose ids are their indices: spaces become U+2581, of which
// one goes before a text where `adds_space`; characters that are no piece become bytes where there
// is a piece for each byte, else the unknown token. Control pieces become special added tokens,
// user-defined ones added tokens that are not special.
// kInvalidArgument for a text that is not UTF-8, empty or too long, and for two unknown pieces.
Status FillSentencePieceBpe(const std::vector<SentencePiece>& pieces, bool adds_space,
                            TokenizerSpec* spec);
// The same with Unigram instead of BPE.
Status FillSentencePieceUnigram(const std::vector<SentencePiece>& pieces, bool adds_space,
                                TokenizerSpec* spec);

}  // namespace outrider
