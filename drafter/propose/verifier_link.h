// The interface between the drafting loop and the verifiers that it serves, without gRPC: the
// events that arrive, and the link through which the loop answers. A connection is one attached
// stream; a redial is another connection, so that an answer can never reach the wrong one.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "common/grammar/grammar_masks.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "drafter/propose/vocabulary_map.h"

namespace outrider {

// The sending half of one connection. Calls after its end are ignored.
//
// Thread: any.
class VerifierLink {
 public:
  virtual ~VerifierLink() = default;
  virtual void SendDrafts(std::vector<DraftPart> drafts) = 0;
  virtual void SendLoad(const DrafterLoad& load) = 0;
  // Ends the connection once everything that waits is sent.
  virtual void Close() = 0;
};

struct WelcomeEvent {
  std::shared_ptr<VerifierLink> link;
  DrafterWelcome welcome;
  // Maps between the verifier's ids and ours; nullptr: they are the same.
  std::shared_ptr<const VocabularyMap> vocabulary = nullptr;
};

// From our own side: the grammar of a session to be opened has been compiled.
struct CompiledEvent {
  uint64_t ticket = 0;
  SessionOpening opening;
  std::shared_ptr<grammar::GrammarMasks> masks;  // nullptr: compiling failed
};

struct CloseEvent {
  uint64_t session = 0;
};

// No new sessions or plans will come.
struct DrainEvent {};

// From our own side: whether this verifier is still to be served. One that is not may finish its
// sessions; then the loop closes the link.
struct WantedEvent {
  bool wanted = true;
};

// The last event of a connection.
struct DisconnectedEvent {};

using LinkMessage =
    std::variant<WelcomeEvent, SessionOpening, std::vector<SessionVerdict>, CompiledEvent,
                 CloseEvent, DrainEvent, WantedEvent, DisconnectedEvent>;

struct LinkEvent {
  uint64_t connection = 0;  // unique in the process
  LinkMessage message;
  // Its destruction, once the event is handled, tells the connection that there is room again.
  // nullptr: nobody waits for that.
  std::shared_ptr<void> room = nullptr;
};

// Receives events from connections: the loop's inbox.
//
// Thread: any.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  // Returns false if there is no room: the connection has to end, because its mirrors are out of
  // date.
  [[nodiscard]] virtual bool Push(LinkEvent event) = 0;
  // For WantedEvent and DisconnectedEvent, which must arrive.
  virtual void PushUrgent(LinkEvent event) = 0;
};

}  // namespace outrider
