// Attaches a drafting loop to a verifier in the same process: what the one side says is handed to
// the other.
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

// What the verifier tells the loop. Thread: any; the loop has an inbox. When that is full the
// message is dropped: the loop answers a later one that does not fit with a refusal, as it does for
// a verifier that it does not understand.
class LocalDrafterLink final : public DrafterLink {
 public:
  // `back` goes to the loop with the welcome. `own`: the drafter's vocabulary, if it translates.
  LocalDrafterLink(uint64_t connection, std::shared_ptr<LinkEvents> events,
                   std::shared_ptr<VerifierLink> back,
                   std::shared_ptr<const DrafterVocabulary> own = nullptr);

  // How far it is the verifier's, for DrafterPool::OnMatch; nullopt: none was sent, they are the
  // same. Thread: the engine thread.
  std::optional<VocabularyMatch> match() const {
    if (vocabulary_ == nullptr) return std::nullopt;
    return vocabulary_->match();
  }

  void SendVocabulary(const VocabularyEntries& vocabulary) override;
  void SendWelcome(const DrafterWelcome& welcome) override;
  void SendOpen(SessionOpening opening) override;
  void SendVerdicts(std::vector<SessionVerdict> decisions) override;
  void SendClose(uint64_t session) override;
  void SendDrain() override;
  // Nothing more comes; logged.
  void Close(const Status& reason) override;

 private:
  void Push(LinkMessage message);

  const uint64_t connection_;
  const std::shared_ptr<LinkEvents> events_;
  const std::shared_ptr<VerifierLink> back_;
  const std::shared_ptr<const DrafterVocabulary> own_;
  std::shared_ptr<const VocabularyMap> vocabulary_;  // nullptr: the verifier's is the drafter's
};

// What a drafter of this model says of itself. `tokenizer`: the drafter's.
DrafterHello LocalHello(const Model& drafter, const DraftLoopOptions& options,
                        const TokenizerFingerprint& tokenizer, bool translates = false);

}  // namespace outrider
