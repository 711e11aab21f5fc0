// The drafting loop's state: the connections to its verifiers, and the sessions of each.
//
// Owner: DraftSessions. Thread: the drafting loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "drafter/propose/draft_session.h"
#include "drafter/propose/mirror.h"
#include "drafter/propose/session_lookahead.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

struct VerifierConnection;

struct HeldSession {
  VerifierConnection* connection = nullptr;
  uint64_t id = 0;  // at the verifier
  std::unique_ptr<Mirror> mirror;
  SessionLookahead ahead = {};
  uint64_t opened = 0;               // increases with every session of all verifiers
  uint64_t plan_order = 0;           // increases with every plan that arrives
  Time planned = {};                 // when it arrived
  std::optional<Time> drafted = {};  // when the previous draft was complete
  std::optional<Time> decided = {};  // when the previous verdict arrived
  // tokens whose KV was kept when it was opened; nullopt: none is
  std::optional<int> prefix_tokens = {};
  bool shares_prefix = false;           // its own KV is kept for others
  std::optional<uint64_t> prompt = {};  // PromptId, if its rounds are recorded for training
};

struct VerifierConnection {
  std::shared_ptr<VerifierLink> link;
  DraftBounds bounds;
  std::map<uint64_t, HeldSession> sessions = {};
  // Sessions that wait for their grammars, with the compiler's tickets.
  std::map<uint64_t, uint64_t> compiling = {};
  std::vector<DraftPart> outbox = {};    // sent at the end of the step
  std::optional<DrafterLoad> told = {};  // the load last sent
  bool wanted = true;                    // WantedEvent

  int held() const { return static_cast<int>(sessions.size()); }
  // Whether any of its sessions follows a grammar, or waits for one.
  bool HasGrammars() const {
    return !compiling.empty() || std::any_of(sessions.begin(), sessions.end(), [](const auto& s) {
      return s.second.mirror->session.has_grammar();
    });
  }
  // Tokens of all its sessions, without drafts.
  int64_t tokens() const {
    int64_t tokens = 0;
    for (const auto& [id, session] : sessions) tokens += session.mirror->session.length();
    return tokens;
  }
};

}  // namespace outrider
