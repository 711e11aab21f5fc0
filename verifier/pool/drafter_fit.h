// Whether a drafter can draft for this verifier's target, by its hello and its vocabulary.
//
// Thread: any.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/vocabulary_entries.h"
#include "common/text/fingerprint.h"

namespace outrider {

struct TargetIdentity {
  std::string model;
  TokenizerFingerprint tokenizer;
  int vocab_size = 0;  // length of the target's logits rows
  // For drafters with another vocabulary; nullptr: these are refused.
  std::shared_ptr<const VocabularyEntries> vocabulary = nullptr;
  // Size of the vocabulary; 0 without one.
  int tokens() const { return vocabulary == nullptr ? 0 : vocabulary->tokens(); }
};

// The least share of a drafter's tokens that the target must have.
inline constexpr double kLeastSharedTokens = 0.7;

// kFailedPrecondition with the difference: no common protocol, another tokenizer without
// translation, or limits that allow no draft.
Status CheckHello(const TargetIdentity& target, const DrafterHello& hello);

// How the drafter's tokenizer differs; "": it is the target's.
std::string TokenizerMismatch(const TargetIdentity& target, const DrafterHello& hello);

// kFailedPrecondition: the drafter shares too little; kInvalidArgument: the numbers do not fit.
Status CheckMatch(const TargetIdentity& target, const DrafterHello& hello,
                  const VocabularyMatch& match);

}  // namespace outrider
