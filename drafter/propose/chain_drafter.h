// Drafts several depths in one go, where every session that is held drafts one sequence that the
// model's device can draw by itself. The host draws each token again from the entries that the
// device drew from: only the host's draws count, and what was computed after a token of the
// device's that differs is dropped.
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
  // `depths` draws each depth's tokens on the host, and shares its parts. Must outlive it.
  explicit ChainDrafter(DepthDrafter* depths) : parts_(depths->parts()), depths_(depths) {}

  // How many depths can be drawn in one go: until the first part of a draft is due, so that none
  // comes later than depth by depth. 0 unless all sessions that are held take part, each with a
  // chain (DraftSession::draws_chain): a verdict on any other would have to wait.
  int Depths(std::span<const PassShare> shares) const;

  // Draws so many. If the model fails, all the sessions are refused. REQUIRES: 0 < `depths` <=
  // Depths(shares).
  void Run(std::span<const PassShare> shares, int depths);

 private:
  // Draws on the host from `rows` [depths, shares]; a report of each depth.
  std::vector<StepReport> Draw(std::span<const PassShare> shares, int depths,
                               std::span<const PickedRow> rows);
  // Whether the device drew the token that the host has drawn last.
  bool IsSame(const DraftSession& session, TokenId drawn);

  const DepthDrafter::Parts& parts_;
  DepthDrafter* const depths_;
  bool told_of_other_token_ = false;
};

}  // namespace outrider
