#include "verifier/embedded/local_link.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace outrider {
namespace {

DraftPlan ToPlan(const RoundPlan& plan) {
  return {.round = plan.round, .shape = plan.shape, .stop = plan.stop};
}

}  // namespace

LocalDrafterLink::LocalDrafterLink(uint64_t connection, std::shared_ptr<LinkEvents> events,
                                   std::shared_ptr<VerifierLink> back)
    : connection_(connection), events_(std::move(events)), back_(std::move(back)) {}

void LocalDrafterLink::SendWelcome(const DrafterWelcome& welcome) {
  Push(WelcomeEvent{
      .link = back_, .vocab_limit = welcome.vocab_limit, .law_limits = welcome.law_limits});
}

void LocalDrafterLink::SendOpen(const SessionStart& start) {
  Push(OpenEvent{.session = start.session,
                 .tokens = {start.tokens.begin(), start.tokens.end()},
                 .prompt_tokens = start.prompt_tokens,
                 .sampling = *start.sampling,
                 .seed = start.seed,
                 .kind = start.kind,
                 .plan = ToPlan(start.plan)});
}

void LocalDrafterLink::SendDecisions(const std::vector<RoundDecision>& decisions) {
  VerdictsEvent event;
  for (const RoundDecision& d : decisions) {
    event.verdicts.push_back({.session = d.session,
                              .round = d.round,
                              .node = d.node,
                              .next = {d.next.begin(), d.next.end()},
                              .plan = ToPlan(d.plan),
                              .acceptance = d.acceptance});
  }
  Push(std::move(event));
}

void LocalDrafterLink::SendClose(uint64_t session) { Push(CloseEvent{session}); }

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
                        const TokenizerFingerprint& tokenizer) {
  const ModelConfig& config = drafter.config();
  return {.protocol_version = kDraftingProtocolVersion,
          .name = "embedded",
          .model = config.name,
          .tokenizer = tokenizer,
          .vocab_size = config.vocab_size,
          .max_sessions = options.max_sessions,
          .max_draft_length = options.max_draft_length,
          .max_draft_tokens = options.max_draft_tokens,
          .max_context = std::min(config.max_position_embeddings,
                                  drafter.total_pages() * drafter.page_tokens()),
          .acceptance_head = options.head != nullptr};
}

std::vector<ArrivedDraft> ToArrived(std::vector<Draft> drafts) {
  std::vector<ArrivedDraft> arrived;
  arrived.reserve(drafts.size());
  for (Draft& d : drafts) {
    arrived.push_back({.session = d.session,
                       .round = d.round,
                       .chunk = std::move(d.chunk),
                       .seconds = d.seconds});
  }
  return arrived;
}

}  // namespace outrider
