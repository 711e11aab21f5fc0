// A session's tokens and draft with the KV behind them.
//
// Thread: the owner of the model.
#pragma once

#include <span>
#include <utility>

#include "common/model/model.h"
#include "drafter/propose/draft_kv.h"
#include "drafter/propose/draft_session.h"

namespace outrider {

struct Mirror {
  // Takes `trunk`, which holds the first session.kv_length() tokens.
  Mirror(DraftSession mirrored, Model* model, PageBudget* budget, SequenceId trunk)
      : session(std::move(mirrored)), kv(model, budget, trunk) {}

  // Draws the next depth from the logits behind the frontier (as DraftSession::DrawDepth) and makes
  // the KV ready for the depth behind it.
  void DrawDepth(std::span<float> rows, std::span<const float> accepted) {
    session.DrawDepth(rows, accepted);
    if (session.drafting()) {
      kv.Branch(session.draft(), session.frontier());
    } else {
      kv.Settle();
    }
  }

  // As DraftSession::Adopt. False also when there are no pages for what is to be drawn yet.
  bool Adopt(const DraftPlan& plan) {
    const bool was_drafting = session.drafting();
    const int64_t secured = session.shape().total_draws();
    if (!session.Adopt(plan)) return false;
    if (!session.drafting()) {
      kv.Settle();
      return true;
    }
    if (session.shape().total_draws() > secured &&
        !kv.Secure(session.length(), session.shape()).ok()) {
      return false;
    }
    if (!was_drafting) kv.Branch(session.draft(), session.frontier());
    return true;
  }

  DraftSession session;
  DraftKv kv;
};

}  // namespace outrider
