// Sends the pool's messages to one drafter. verifier/rpc implements it over a stream,
// verifier/embedded within the process, tests by recording.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/spec/drafter_demand.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "common/spec/vocabulary_entries.h"

namespace outrider {

// Thread: the engine thread. Calls must not block.
class DrafterLink {
 public:
  virtual ~DrafterLink() = default;
  virtual void SendVocabulary(const VocabularyEntries& vocabulary) = 0;
  virtual void SendWelcome(const DrafterWelcome& welcome) = 0;
  // Only to drafters that speak kDemandProtocol.
  virtual void SendDemand(const DrafterDemand& demand) = 0;
  virtual void SendOpen(SessionOpening opening) = 0;
  virtual void SendVerdicts(std::vector<SessionVerdict> decisions) = 0;
  virtual void SendClose(uint64_t session) = 0;
  virtual void SendDrain() = 0;
  // Ends the stream with a reason.
  virtual void Close(const Status& reason) = 0;
  // Whether the drafter may go to another verifier when this one is full.
  virtual bool CanGoElsewhere() const { return true; }
};

}  // namespace outrider
