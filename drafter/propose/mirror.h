// A session's tokens and draft, with the KV that holds them.
//
// Thread: the owner of the model.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/model/model.h"
#include "drafter/propose/draft_kv.h"
#include "drafter/propose/draft_session.h"

namespace outrider {

struct Mirror {
  // Takes `trunk`, which holds the first session.kv_length() tokens.
  Mirror(DraftSession mirrored, Model* model, PageBudget* budget, SequenceId trunk)
      : session(std::move(mirrored)), kv(model, budget, trunk) {}

  // Samples the next depth from what was picked after the frontier (see DraftSession::DrawDepth)
  // and prepares the KV for the depth after it. `states` [frontier, hidden_size]: last hidden
  // states to keep; empty: none are kept.
  void DrawDepth(std::span<const PickedRow> rows, std::span<const float> accepted,
                 std::span<const float> states) {
    if (!states.empty() && session.depths_drawn() > 0) {  // the root is not a draft token
      fed.nodes.insert(fed.nodes.end(), session.frontier().begin(), session.frontier().end());
      fed.states.insert(fed.states.end(), states.begin(), states.end());
    }
    session.DrawDepth(rows, accepted);
    if (session.drafting()) {
      kv.Branch(session.draft(), session.frontier());
    } else {
      kv.FreeUnusedPages();
    }
  }

  // See DraftSession::Adopt. Also returns false if there are no pages for the rest of the draft.
  bool Adopt(const DraftPlan& plan) {
    const bool was_drafting = session.drafting();
    const DraftShape secured = session.shape();
    if (!session.Adopt(plan)) return false;
    if (!session.drafting()) {
      kv.FreeUnusedPages();
      return true;
    }
    // Another shape may need other pages, even for fewer tokens.
    if (session.shape() != secured && !kv.Secure(session.length(), session.shape()).ok()) {
      return false;
    }
    if (!was_drafting) kv.Branch(session.draft(), session.frontier());
    return true;
  }

  // Nodes of the draft that were fed, with their last hidden states.
  struct FedNodes {
    std::vector<int32_t> nodes;
    std::vector<float> states;  // [nodes, hidden_size]
  };

  DraftSession session;
  DraftKv kv;
  FedNodes fed = {};
};

}  // namespace outrider
