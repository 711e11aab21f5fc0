// How a verifier and a drafter introduce themselves: the first message of each side, and the
// drafter's load.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "common/spec/draft_distribution.h"
#include "common/text/fingerprint.h"

namespace outrider {

// The versions of proto/outrider/v1/drafting.proto that this build speaks. A drafter and a verifier
// use the highest that both speak, so that releases whose ranges overlap work together.
inline constexpr int kLowestDraftingProtocol = 3;
inline constexpr int kDraftingProtocol = 4;
// The first version in which verifiers say how many drafters they want.
inline constexpr int kDemandProtocol = 4;

struct ProtocolRange {
  int lowest = kLowestDraftingProtocol;
  int highest = kDraftingProtocol;
  friend bool operator==(const ProtocolRange&, const ProtocolRange&) = default;
};

// "4" or "3 to 4", for messages.
inline std::string ToString(const ProtocolRange& range) {
  if (range.lowest == range.highest) return std::to_string(range.lowest);
  return std::to_string(range.lowest) + " to " + std::to_string(range.highest);
}

// The highest version in both ranges; nullopt: there is none.
inline std::optional<int> AgreeOnProtocol(const ProtocolRange& a, const ProtocolRange& b) {
  const int highest = std::min(a.highest, b.highest);
  if (highest < std::max(a.lowest, b.lowest)) return std::nullopt;
  return highest;
}

// A drafter's first message.
struct DrafterHello {
  ProtocolRange protocol;
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
  bool visit = false;            // it only wants the welcome and the demand, and no sessions
};

// How well a drafter's vocabulary matches the verifier's, if they differ.
struct VocabularyMatch {
  int shared = 0;  // tokens of the drafter that the verifier also has
  int tokens = 0;  // all tokens of the drafter
  friend bool operator==(const VocabularyMatch&, const VocabularyMatch&) = default;
};

// The verifier's answer to a drafter that fits.
struct DrafterWelcome {
  int protocol = kDraftingProtocol;  // agreed on; both sides send nothing of later versions
  std::string model;                 // the verifier's
  // Where the verifier runs, for drafters that prefer their own zone; "": unknown.
  std::string zone = {};
  int vocab_limit = 0;  // ids in drafts are below this
  DraftDistributionLimits distribution_limits;
};

struct DrafterLoad {
  int sessions = 0;  // over all its verifiers
  int free_pages = 0;
  // The most sessions that the receiving verifier may have at present. 0: the drafter leaves it
  // with the last of its sessions, or, if it has none, others hold all. Unset: as many as the hello
  // says, less those of others.
  std::optional<int> session_limit;
  friend bool operator==(const DrafterLoad&, const DrafterLoad&) = default;
};

}  // namespace outrider
