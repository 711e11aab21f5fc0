// The words between the drafting loop and the verifiers that it serves, free of gRPC: the events
// that arrive, and the interface through which the loop answers. One connection is one attached
// stream; a redial is another connection, so that an answer can never reach the wrong one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_law.h"
#include "common/spec/draft_tree.h"
#include "common/spec/sampling_params.h"
#include "common/spec/stop_rule.h"

namespace outrider {

// What a session is to draft, behind the tokens known so far.
struct DraftPlan {
  uint32_t round = 0;  // rises with every plan of a session
  DraftShape shape;    // of length 0: nothing; keep the session
  StopRule stop = {};  // which paths end before that
};

// The answer to a plan, or a part of it. No tokens: the drafter cannot serve the session and does
// not hold it.
struct Draft {
  uint64_t session = 0;
  uint32_t round = 0;
  DraftChunk chunk;
  double seconds = 0;  // since the plan arrived
};

struct DrafterLoad {
  int sessions = 0;  // of all verifiers
  int free_pages = 0;
  // That the verifier who is told may hold at most, as things are.
  int session_limit = 0;
  friend bool operator==(const DrafterLoad&, const DrafterLoad&) = default;
};

// The sending half of one connection. Calls behind its end are ignored.
//
// Thread: any.
class VerifierLink {
 public:
  virtual ~VerifierLink() = default;
  virtual void SendDrafts(std::vector<Draft> drafts) = 0;
  virtual void SendLoad(const DrafterLoad& load) = 0;
  // Ends the connection behind what waits to be sent.
  virtual void Close() = 0;
};

struct WelcomeEvent {
  std::shared_ptr<VerifierLink> link;
  int vocab_limit = 0;  // draft only ids below
  DraftLawLimits law_limits;
};

struct OpenEvent {
  uint64_t session = 0;
  std::vector<TokenId> tokens;  // prompt and output so far
  int prompt_tokens = 0;
  SamplingParams sampling;
  uint64_t seed = 0;
  DraftKind kind = DraftKind::kSampled;
  DraftPlan plan = {};
  std::string traceparent = {};  // the request's, as it came; "": none
};

struct SessionVerdict {
  uint64_t session = 0;
  uint32_t round = 0;              // the round that was decided
  int node = 0;                    // of its draft: the path to it stands
  std::vector<TokenId> next = {};  // tokens behind them
  DraftPlan plan = {};
  std::string acceptance = {};  // of the draft's nodes from 1 on: min(1, p / q), times 255
};

struct VerdictsEvent {
  std::vector<SessionVerdict> verdicts;
};

struct CloseEvent {
  uint64_t session = 0;
};

// No new sessions or plans will come.
struct DrainEvent {};

// From our own side: whether this verifier is still among those to be served. One that is not may
// finish the sessions that it has here; then the loop closes the link.
struct WantedEvent {
  bool wanted = true;
};

// The last event of a connection.
struct DisconnectedEvent {};

using LinkMessage = std::variant<WelcomeEvent, OpenEvent, VerdictsEvent, CloseEvent, DrainEvent,
                                 WantedEvent, DisconnectedEvent>;

struct LinkEvent {
  uint64_t connection = 0;  // unique in the process
  LinkMessage message;
};

// Where connections put what arrives: the loop's inbox.
//
// Thread: any.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  // False when there is no room: the connection has to end, its mirrors are no longer true.
  [[nodiscard]] virtual bool Push(LinkEvent event) = 0;
  // For WantedEvent and DisconnectedEvent, which must arrive.
  virtual void PushUrgent(LinkEvent event) = 0;
};

}  // namespace outrider
