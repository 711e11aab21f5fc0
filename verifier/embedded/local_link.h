// Attaches a drafting loop to a verifier in the same process by passing their messages across.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/model/model.h"
#include "common/text/fingerprint.h"
#include "drafter/propose/draft_loop.h"
#include "drafter/propose/verifier_link.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

// Passes the verifier's messages to the loop. Thread: any; the loop has an inbox. If the inbox is
// full, the message is dropped, and the loop refuses a later message that does not fit, as it would
// from any verifier.
class LocalDrafterLink final : public DrafterLink {
 public:
  // `back` goes to the loop with the welcome. `own`: the drafter's vocabulary, if it translates.
  LocalDrafterLink(uint64_t connection, std::shared_ptr<LinkEvents> events,
                   std::shared_ptr<VerifierLink> back,
                   std::shared_ptr<const DrafterVocabulary> own = nullptr);

  // How well the vocabularies match, for DrafterRoster::OnMatch; nullopt: they are the same, and
  // none was sent. Thread: the engine thread.
  std::optional<VocabularyMatch> match() const {
    if (vocabulary_ == nullptr) return std::nullopt;
    return vocabulary_->match();
  }

  void SendVocabulary(const VocabularyEntries& vocabulary) override;
  void SendWelcome(const DrafterWelcome& welcome) override;
  void SendDemand(const DrafterDemand& /*demand*/) override {}  // it has no other verifier
  void SendOpen(SessionOpening opening) override;
  void SendVerdicts(std::vector<SessionVerdict> decisions) override;
  void SendClose(uint64_t session) override;
  void SendDrain() override;
  // Logs that the link is closed.
  void Close(const Status& reason) override;
  bool CanGoElsewhere() const override { return false; }

 private:
  void Push(LinkMessage message);

  const uint64_t connection_;
  const std::shared_ptr<LinkEvents> events_;
  const std::shared_ptr<VerifierLink> back_;
  const std::shared_ptr<const DrafterVocabulary> own_;
  std::shared_ptr<const VocabularyMap> vocabulary_;  // nullptr: both have the same vocabulary
};

// The hello of a drafter with this model. `tokenizer` is the drafter's.
DrafterHello LocalHello(const Model& drafter, const DraftLoopOptions& options,
                        const TokenizerFingerprint& tokenizer, bool translates = false);

}  // namespace outrider
