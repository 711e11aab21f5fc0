// Decides rounds over logits in host memory: rows are turned into distributions as the rules ask
// for them, because rules never see most rows of a wide tree.
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
  // Overwrites the rows. The result is valid until the next call. Pure otherwise: the same
  // arguments give the same verdicts.
  Decisions Decide(const RoundBatch& batch, const LogitRows& rows);

 private:
  HostScratch scratch_;
  std::vector<DecidedRound> rounds_;
  std::vector<uint8_t> acceptance_;
};

// For tests and simulations, which have target distributions at hand: row(node) [vocab]
// probabilities, valid until the call returns.
using TargetRowFn = std::function<std::span<const float>(int node)>;

// A round of any rule, with a draft or without. `position`: the place of the
// round's first token in the sequence, prompt included (gumbel keys its noise by it). Coins: (seed,
// round, depth). REQUIRES: Validate(draft, its shape, ..) was ok.
Verdict VerifyRound(Rule rule, const DraftTree& draft, const TargetRowFn& target_row, int vocab,
                    uint64_t seed, uint32_t round, uint32_t position);

FirstTokenAcceptance AcceptanceOfFirstToken(const DraftTree& draft,
                                            std::span<const float> target_row);

}  // namespace outrider
