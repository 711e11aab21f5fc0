#include "verifier/embedded/local_link.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace outrider {

LocalDrafterLink::LocalDrafterLink(uint64_t connection, std::shared_ptr<LinkEvents> events,
                                   std::shared_ptr<VerifierLink> back,
                                   std::shared_ptr<const DrafterVocabulary> own)
    : connection_(connection),
      events_(std::move(events)),
      back_(std::move(back)),
      own_(std::move(own)) {}

void LocalDrafterLink::SendVocabulary(const VocabularyEntries& vocabulary) {
  // The verifier's own vocabulary names each token once.
  vocabulary_ =
      std::make_shared<const VocabularyMap>(VocabularyMap::Create(vocabulary, *own_).value());
}

void LocalDrafterLink::SendWelcome(const DrafterWelcome& welcome) {
  Push(WelcomeEvent{.link = back_, .welcome = welcome, .vocabulary = vocabulary_});
}

void LocalDrafterLink::SendOpen(SessionOpening opening) { Push(std::move(opening)); }

void LocalDrafterLink::SendVerdicts(std::vector<SessionVerdict> decisions) {
  Push(std::move(decisions));
}

// Also into a full inbox: a session whose end is lost would hold its place for good.
void LocalDrafterLink::SendClose(uint64_t session) {
  events_->PushUrgent({.connection = connection_, .message = CloseEvent{session}});
}

void LocalDrafterLink::SendDrain() { Push(DrainEvent{}); }

void LocalDrafterLink::Close(const Status& reason) {
  if (reason.ok()) return;
  Log(LogLevel::kError, "the verifier's own drafter is not used any more",
      {{"reason", reason.ToString()}});
}

void LocalDrafterLink::Push(LinkMessage message) {
  if (events_->Push({.connection = connection_, .message = std::move(message)})) return;
  Log(LogLevel::kWarning, "the verifier's own drafter does not keep up");
}

DrafterHello LocalHello(const Model& drafter, const DraftLoopOptions& options,
                        const TokenizerFingerprint& tokenizer, bool translates) {
  const ModelConfig& config = drafter.config();
  return {.name = "embedded",
          .model = config.name,
          .tokenizer = tokenizer,
          .vocab_size = config.vocab_size,
          .max_sessions = options.max_sessions,
          .max_draft_length = options.max_draft_length,
          .max_draft_tokens = options.max_draft_tokens,
          .max_context = std::min(config.max_position_embeddings,
                                  drafter.total_pages() * drafter.page_tokens()),
          .acceptance_head = options.head != nullptr,
          .translates = translates};
}

}  // namespace outrider
