// The two ends of an attachment within one process: the wire's messages as the other side's words,
// without the wire.
#pragma once

#include <memory>
#include <vector>

#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "drafter/propose/draft_loop.h"
#include "drafter/propose/verifier_link.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider::testing {

// The verifier's words to a drafting loop. Which thread calls does not matter: the loop has an
// inbox.
class LocalDrafterLink final : public DrafterLink {
 public:
  // `events` must outlive the link; `back` goes to the loop with the welcome.
  LocalDrafterLink(uint64_t connection, LinkEvents* events, std::shared_ptr<VerifierLink> back);

  void SendWelcome(const DrafterWelcome& welcome) override;
  void SendOpen(const SessionStart& start) override;
  void SendDecisions(const std::vector<RoundDecision>& decisions) override;
  void SendClose(uint64_t session) override;
  void SendDrain() override;
  // REQUIRES: an ok reason. A local drafter gives no other.
  void Close(const Status& reason) override;

 private:
  // REQUIRES: room in the inbox.
  void Push(LinkMessage message);

  const uint64_t connection_;
  LinkEvents* const events_;
  const std::shared_ptr<VerifierLink> back_;
};

// What a drafter of this model says of itself. Its tokenizer is the target's.
DrafterHello LocalHello(const Model& drafter, const DraftLoopOptions& options,
                        const Tokenizer& tokenizer);

// The drafter's drafts in the verifier's words.
std::vector<ArrivedDraft> ToArrived(std::vector<Draft> drafts);

}  // namespace outrider::testing
