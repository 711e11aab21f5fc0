// Drafts several depths in one go if every session drafts one sequence that the model's device can
// sample by itself. The host samples each token again from the entries that the device used. Only
// the host's tokens count, and what was computed after a differing token of the device is dropped.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <span>
#include <vector>

#include "drafter/propose/depth_drafter.h"
#include "drafter/propose/pass_plan.h"

namespace outrider {

class ChainDrafter {
 public:
  // `depths` samples each depth's tokens on the host and shares its parts. Must outlive it.
  explicit ChainDrafter(DepthDrafter* depths) : parts_(depths->parts()), depths_(depths) {}

  // How many depths can be drafted in one go: up to the first due part of a draft, so that no part
  // is later than when drafting depth by depth. 0 unless all sessions take part, each with a chain
  // (DraftSession::draws_chain), because a verdict on any other would have to wait.
  int Depths(std::span<const PassShare> shares) const;

  // Drafts `depths` depths. If the model fails, all the sessions are refused. REQUIRES: 0 <
  // `depths` <= Depths(shares).
  void Run(std::span<const PassShare> shares, int depths);

 private:
  // Samples on the host from `rows` [depths, shares]; returns a report for each depth.
  std::vector<StepReport> Draw(std::span<const PassShare> shares, int depths,
                               std::span<const PickedRow> rows);
  // Whether the device sampled the same token as the host did last.
  bool IsSame(const DraftSession& session, TokenId drawn);

  const DepthDrafter::Parts& parts_;
  DepthDrafter* const depths_;
  bool told_of_other_token_ = false;
};

}  // namespace outrider
