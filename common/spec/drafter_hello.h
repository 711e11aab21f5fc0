// How a verifier and a drafter introduce themselves: the first message of each side, and the
// drafter's load.
#pragma once

#include <optional>
#include <string>

#include "common/spec/draft_distribution.h"
#include "common/text/fingerprint.h"

namespace outrider {

// Of proto/outrider/v1/drafting.proto. Both sides must have the same.
inline constexpr int kDraftingProtocolVersion = 3;

// A drafter's first message.
struct DrafterHello {
  int protocol_version = kDraftingProtocolVersion;
  std::string name;  // for people and metrics
  std::string model;
  TokenizerFingerprint tokenizer;
  int vocab_size = 0;  // length of its logits rows, with padding
  int max_sessions = 0;
  int max_draft_length = 0;
  int max_draft_tokens = 0;  // per plan
  int max_context = 0;
  bool acceptance_head = false;  // it has one, which a plan's stop rule may name
  bool translates = false;       // it also drafts for verifiers with another vocabulary
};

// How well a drafter's vocabulary matches the verifier's, if they differ.
struct VocabularyMatch {
  int shared = 0;  // tokens of the drafter that the verifier has, too
  int tokens = 0;  // all tokens of the drafter
  friend bool operator==(const VocabularyMatch&, const VocabularyMatch&) = default;
};

// The verifier's answer to a drafter that fits.
struct DrafterWelcome {
  std::string model;    // the verifier's
  int vocab_limit = 0;  // ids in drafts are below this
  DraftDistributionLimits distribution_limits;
};

struct DrafterLoad {
  int sessions = 0;  // over all its verifiers
  int free_pages = 0;
  // The most sessions that the receiving verifier may have at present. Unset: as many as the hello
  // says, less those of others.
  std::optional<int> session_limit;
  friend bool operator==(const DrafterLoad&, const DrafterLoad&) = default;
};

}  // namespace outrider
