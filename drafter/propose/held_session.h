// What the drafting loop holds: the connections to its verifiers, and for each of them the sessions
// that it drafts for.
//
// Owner: DraftSessions. Thread: the drafting loop.
#pragma once

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
  uint64_t id = 0;  // the verifier's
  std::unique_ptr<Mirror> mirror;
  SessionLookahead ahead = {};
  uint64_t opened = 0;                    // rises with every session of all verifiers
  uint64_t plan_order = 0;                // rises with every plan that arrives
  Time planned = {};                      // when it arrived
  std::optional<Time> drafted = {};       // when the draft before was complete
  std::optional<Time> decided = {};       // when the verdict before came
  std::optional<int> prefix_tokens = {};  // whose KV was kept when it was opened; no value: none is
  bool shares_prefix = false;             // its own is kept for others
  std::optional<uint64_t> prompt = {};    // PromptId, if its rounds are recorded for training
};

struct VerifierConnection {
  std::shared_ptr<VerifierLink> link;
  DraftBounds bounds;
  std::map<uint64_t, HeldSession> sessions = {};
  // Sessions that are opened once their grammars are compiled, with the compiler's tickets.
  std::map<uint64_t, uint64_t> compiling = {};
  std::vector<DraftPart> outbox = {};    // sent at the end of the step
  std::optional<DrafterLoad> told = {};  // the load that it knows of
  bool wanted = true;                    // WantedEvent

  int held() const { return static_cast<int>(sessions.size()); }
  // Tokens of all its sessions, drafts not counted.
  int64_t tokens() const {
    int64_t tokens = 0;
    for (const auto& [id, session] : sessions) tokens += session.mirror->session.length();
    return tokens;
  }
};

}  // namespace outrider
