// What a verifier and a drafter tell each other of themselves: the first message of each side, and
// the drafter's load.
#pragma once

#include <optional>
#include <string>

#include "common/spec/draft_distribution.h"
#include "common/text/fingerprint.h"

namespace outrider {

// Of proto/outrider/v1/drafting.proto. Both sides must speak the same.
inline constexpr int kDraftingProtocolVersion = 3;

// What a drafter says of itself.
struct DrafterHello {
  int protocol_version = kDraftingProtocolVersion;
  std::string name;  // for people and metrics
  std::string model;
  TokenizerFingerprint tokenizer;
  int vocab_size = 0;  // entries of a row of its logits, padding included
  int max_sessions = 0;
  int max_draft_length = 0;
  int max_draft_tokens = 0;  // of one plan
  int max_context = 0;
  bool acceptance_head = false;  // that a plan's stop rule may name
  bool translates = false;       // drafts for a verifier of another vocabulary, too
};

// How far a drafter's vocabulary is the verifier's, where the two differ.
struct VocabularyMatch {
  int shared = 0;  // the drafter's tokens that the verifier has too
  int tokens = 0;  // the drafter's
  friend bool operator==(const VocabularyMatch&, const VocabularyMatch&) = default;
};

// What the verifier answers to a drafter that fits.
struct DrafterWelcome {
  std::string model;    // the verifier's
  int vocab_limit = 0;  // draft only ids below
  DraftDistributionLimits distribution_limits;
};

struct DrafterLoad {
  int sessions = 0;  // that it holds, of all its verifiers
  int free_pages = 0;
  // Sessions that the verifier who is told may hold at most, as things are. Unset: as many as the
  // hello says, less those of others.
  std::optional<int> session_limit;
  friend bool operator==(const DrafterLoad&, const DrafterLoad&) = default;
};

}  // namespace outrider
