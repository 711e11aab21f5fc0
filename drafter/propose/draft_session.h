// The mirror of one session of a verifier: its tokens, how many of them the KV holds, and the draft
// in the making. It knows tokens and laws but no model: the loop feeds what Missing() names, says
// Fed(), and hands the logits behind the last token to DraftNext().
//
// Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/warper.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

// What bounds the drafts of all sessions of a connection.
struct DraftBounds {
  int vocab_size = 0;  // entries of a row of logits; tokens of a session are below
  int allowed = 0;     // drafted ids are below
  int max_context = 0;
  int max_draft_length = 0;
  std::vector<TokenId> eos_token_ids;
  DraftLawLimits law_limits;
};

class DraftSession {
 public:
  // kInvalidArgument for what no session can be: no tokens, more than the context, ids outside of
  // the vocabulary, senseless sampling. `bounds` must outlive the session.
  static Result<DraftSession> Create(const OpenEvent& open, const DraftBounds* bounds);

  const DraftPlan& plan() const { return plan_; }
  // Tokens known: committed ones, then the draft so far.
  int length() const { return static_cast<int>(tokens_.size()); }
  // Tokens that the KV may come to hold before the plan is answered.
  int planned_length() const;
  // True until the plan is answered.
  bool drafting() const { return drafting_; }

  // The tokens whose KV is not there yet; never empty while drafting. The logits behind the last
  // one make the next draft token.
  std::span<const TokenId> Missing() const;
  // The first `count` of Missing() are in the KV now.
  void Fed(int count);
  int kv_length() const { return kv_length_; }

  // Draws the next draft token from the row behind the last token (overwritten: [vocab_size]).
  // True: the draft is complete, take it. A token ends its draft when it is an end of sequence, but
  // is part of it all the same: dropping a token for its own value would bend the output law.
  // REQUIRES: drafting() and Missing() is empty.
  bool DraftNext(std::span<float> logits);
  // The complete draft; its tokens stay here until the verdict.
  DraftPath TakeDraft();

  // Moves to the next round. KV of rejected tokens is no longer counted: the caller truncates to
  // kv_length(). kInvalidArgument or kFailedPrecondition for a verdict that does not fit what this
  // session holds: nothing changes then, and the mirror is of no use any more.
  Status Apply(const SessionVerdict& verdict);

 private:
  DraftSession(const OpenEvent& open, const DraftBounds* bounds);

  void Begin(const DraftPlan& plan);

  const DraftBounds* bounds_;
  uint64_t seed_;
  Warper warper_;
  std::vector<TokenId> tokens_;  // committed, then the draft
  int committed_;
  int kv_length_ = 0;
  DraftPlan plan_;
  bool drafting_ = false;
  std::vector<DraftLaw> laws_;  // of the draft; empty when greedy or taken
};

}  // namespace outrider
