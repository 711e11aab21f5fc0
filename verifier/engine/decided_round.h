// A round of one sequence as it was decided, on the host or on the device, and how the host decides
// it.
//
// Thread: the engine thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "common/rules/verify.h"
#include "verifier/engine/session.h"

namespace outrider {

struct DecidedRound {
  Verdict verdict;
  // For a drafter that learns from it: AcceptanceByte of the draft's nodes, from 1 on, as far as
  // they are known. Empty where NeedsAcceptance says no.
  std::string acceptance = {};
  std::optional<FirstTokenAcceptance> first_token = {};  // of several sampled sequences
  // The depth of the first logits row that the verdict rests on and that is NaN or infinite; -1:
  // none. Only rows that plain decoding would have read count. A rule takes a broken row as the
  // distribution that the logits processors make of it, so a draft cannot end a request by leading
  // elsewhere, and does not change the text's distribution either.
  int broken_depth = -1;
};

// Whether the drafter is to be told how likely the draft's nodes were to be accepted.
bool NeedsAcceptance(const Session& session);

// Whether the round has a draft that a sampling rule verifies against its draft distribution.
bool IsSampledRound(const Session& session);

// `rows` [draft nodes + 1, vocab]: the raw logits, the root's first; overwritten. `allowed`: ids
// from here on are never sampled.
DecidedRound DecideOnHost(const Session& session, std::span<float> rows, int allowed);

}  // namespace outrider
