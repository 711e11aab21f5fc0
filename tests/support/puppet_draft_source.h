// A DraftSource that records what the engine asks and drafts only when the test says so.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "verifier/engine/draft_source.h"

namespace outrider::testing {

class PuppetDraftSource final : public DraftSource {
 public:
  struct Opened {
    std::vector<TokenId> tokens;
    int prompt_tokens;
    uint64_t seed;
    DraftKind kind;
    RoundPlan plan;
  };
  struct Decided {
    uint32_t round;
    int node;
    int accepted;
    std::vector<TokenId> next;
    RoundPlan plan;
    std::string acceptance;
  };

  bool accepts = true;  // what Open answers
  Duration patience = std::chrono::milliseconds(100);
  std::map<uint64_t, Opened> opened;
  std::map<uint64_t, std::vector<Decided>> decided;
  std::vector<uint64_t> closed;
  int flushes = 0;
  DraftTiming timing;
  std::vector<uint64_t> late;  // sessions, as they were marked
  bool moves = false;          // what ReassignSession answers of a session that was late

  bool Open(const SessionStart& s) override {
    if (!accepts) return false;
    opened[s.session] = {
        {s.tokens.begin(), s.tokens.end()}, s.prompt_tokens, s.seed, s.kind, s.plan};
    return true;
  }
  void Decide(const RoundDecision& d) override {
    decided[d.session].push_back(
        {d.round, d.node, d.accepted, {d.next.begin(), d.next.end()}, d.plan, d.acceptance});
  }
  void Close(uint64_t session) override { closed.push_back(session); }
  void Flush() override { ++flushes; }
  Patience PatienceWith(uint64_t, Duration) override { return {.usual = patience}; }
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
  RoundPlan plan(uint64_t session) const {
    const auto it = decided.find(session);
    return it == decided.end() || it->second.empty() ? opened.at(session).plan
                                                     : it->second.back().plan;
  }
};

}  // namespace outrider::testing
