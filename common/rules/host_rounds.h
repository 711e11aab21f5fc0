// Decides rounds over logits in host memory. Rows are turned into distributions when the rules need
// them, because rules never see most rows of a wide tree.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/rules/round_batch.h"
#include "common/rules/rule_scratch.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// Thread: the owner.
class HostRounds {
 public:
  // Overwrites the rows. The result is valid until the next call. Deterministic: the same arguments
  // give the same verdicts.
  Decisions Decide(const RoundBatch& batch, const LogitRows& rows);

 private:
  HostScratch scratch_;
  std::vector<DecidedRound> rounds_;
  std::vector<uint8_t> acceptance_;
};

// For tests and simulations with given target distributions: row(node) [vocab] probabilities, valid
// until the call returns.
using TargetRowFn = std::function<std::span<const float>(int node)>;

// Decides a round by any rule, with or without a draft. `position`: index of the round's first
// token in the sequence, including the prompt (it keys gumbel's noise). Random numbers are keyed by
// (seed, round, depth). REQUIRES: Validate(draft, its shape, ..) was ok.
Verdict VerifyRound(Rule rule, const DraftTree& draft, const TargetRowFn& target_row, int vocab,
                    uint64_t seed, uint32_t round, uint32_t position);

FirstTokenAcceptance AcceptanceOfFirstToken(const DraftTree& draft,
                                            std::span<const float> target_row);

}  // namespace outrider
