// A DraftSource that records the engine's calls and drafts when the test tells it to.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "verifier/engine/draft_source.h"

namespace outrider::testing {

class PuppetDraftSource final : public DraftSource {
 public:
  bool accepts = true;  // whether it has room
  Duration timeout = std::chrono::milliseconds(100);
  std::map<uint64_t, SessionOpening> opened;
  std::map<uint64_t, std::vector<SessionVerdict>> decided;
  std::map<uint64_t, DraftTree> early;  // results of EarlyDraft
  std::vector<uint64_t> closed;
  std::map<uint64_t, int> accepted;  // draft tokens of a session
  int flushes = 0;
  DraftTiming timing;
  std::vector<uint64_t> late;  // sessions, in the order in which they were marked
  bool moves = false;          // result of ReassignSession for a session that was late

  bool HasRoom(int) override { return accepts; }
  void Open(SessionOpening opening) override {
    opened.insert_or_assign(opening.session, std::move(opening));
  }
  void Decide(SessionVerdict decision) override {
    decided[decision.session].push_back(std::move(decision));
  }
  const DraftTree* EarlyDraft(uint64_t session) const override {
    const auto found = early.find(session);
    return found == early.end() ? nullptr : &found->second;
  }
  void Close(uint64_t session) override { closed.push_back(session); }
  void RecordAccepted(uint64_t session, int tokens) override { accepted[session] += tokens; }
  void Flush() override { ++flushes; }
  DraftTimeout SetTimeout(uint64_t, Duration, Duration) override { return {.usual = timeout}; }
  void MarkLate(uint64_t session) override { late.push_back(session); }
  bool ReassignSession(uint64_t session) override {
    return moves && std::find(late.begin(), late.end(), session) != late.end();
  }
  std::optional<DraftTiming> Timing(uint64_t, int) override {
    return accepts ? std::optional(timing) : std::nullopt;
  }
  std::string DrafterName(uint64_t session) const override {
    return opened.contains(session) ? "puppet" : "";
  }

  // The last plan sent for the session.
  DraftPlan plan(uint64_t session) const {
    const auto it = decided.find(session);
    return it == decided.end() || it->second.empty() ? opened.at(session).plan
                                                     : it->second.back().plan;
  }
};

}  // namespace outrider::testing
