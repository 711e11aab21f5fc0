#include "drafter/rpc/wire.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "common/rpc/wire.h"

namespace outrider {
namespace {

constexpr auto kMaxId = static_cast<uint32_t>(std::numeric_limits<TokenId>::max());

uint32_t ToCount(int value) { return static_cast<uint32_t>(value); }

Result<DraftPlan> PlanFromWire(const v1::Plan& wire) {
  OUTRIDER_TRY(CheckAtMost("plan.branching", wire.branching_size(), kMaxChunkDraws));
  OUTRIDER_ASSIGN(const std::optional<StopRule> stop, outrider::FromWire(wire.stop()));
  return DraftPlan{
      .round = wire.round(), .shape = outrider::FromWire(wire), .stop = stop.value_or(StopRule{})};
}

Result<std::vector<TokenId>> TokensFromWire(const google::protobuf::RepeatedField<uint32_t>& wire,
                                            const char* field) {
  OUTRIDER_TRY(CheckAtMost(field, wire.size(), kMaxSessionTokens));
  for (const uint32_t id : wire) {
    if (id > kMaxId) return InvalidArgument("token id " + std::to_string(id) + " is no id");
  }
  return std::vector<TokenId>(wire.begin(), wire.end());
}

Result<std::optional<LinkMessage>> FromWire(const v1::Welcome& wire) {
  if (wire.protocol_version() != kSpokenProtocolVersion) {
    return FailedPrecondition("protocol version: the drafter speaks " +
                              std::to_string(kSpokenProtocolVersion) + ", the verifier " +
                              std::to_string(wire.protocol_version()));
  }
  OUTRIDER_TRY(CheckAtMost("welcome.model", std::ssize(wire.model()), kMaxNameBytes, "bytes"));
  const float mass = wire.law_limits().mass();
  const uint32_t max_entries = wire.law_limits().max_entries();
  if (wire.vocab_limit() == 0) return InvalidArgument("welcome: vocab_limit is 0");
  if (!(mass > 0.f && mass <= 1.f)) {
    return InvalidArgument("welcome: law_limits.mass is " + std::to_string(mass));
  }
  if (max_entries == 0) return InvalidArgument("welcome: law_limits.max_entries is 0");
  return std::optional<LinkMessage>(WelcomeEvent{
      .link = nullptr,
      .vocab_limit = ToInt(wire.vocab_limit()),
      // More entries than units of weight cannot be.
      .law_limits = {.mass = mass,
                     .max_entries = static_cast<int>(std::min(max_entries, kDraftLawTotal))}});
}

Result<std::optional<LinkMessage>> FromWire(const v1::Open& wire) {
  OpenEvent open;
  open.session = wire.session();
  OUTRIDER_TRY(
      CheckAtMost("open.traceparent", std::ssize(wire.traceparent()), kMaxNameBytes, "bytes"));
  OUTRIDER_TRY(
      CheckAtMost("open.logit_bias", std::ssize(wire.sampling().logit_bias()), kMaxLogitBias));
  OUTRIDER_ASSIGN(open.tokens, TokensFromWire(wire.token_ids(), "open.token_ids"));
  open.prompt_tokens = ToInt(wire.prompt_tokens());
  open.sampling = outrider::FromWire(wire.sampling());
  open.seed = wire.seed();
  OUTRIDER_ASSIGN(open.kind, outrider::FromWire(wire.kind()));
  OUTRIDER_ASSIGN(open.plan, PlanFromWire(wire.plan()));
  open.traceparent = wire.traceparent();
  return std::optional<LinkMessage>(std::move(open));
}

Result<std::optional<LinkMessage>> FromWire(const v1::VerdictBatch& wire) {
  OUTRIDER_TRY(CheckAtMost("verdicts", wire.verdicts_size(), kMaxBatchEntries));
  VerdictsEvent event;
  event.verdicts.reserve(static_cast<size_t>(wire.verdicts_size()));
  for (const v1::Verdict& verdict : wire.verdicts()) {
    OUTRIDER_ASSIGN(std::vector<TokenId> next, TokensFromWire(verdict.next(), "verdicts.next"));
    OUTRIDER_ASSIGN(DraftPlan plan, PlanFromWire(verdict.plan()));
    OUTRIDER_TRY(CheckAtMost("verdicts.acceptance", std::ssize(verdict.acceptance()),
                             kMaxChunkDraws, "bytes"));
    event.verdicts.push_back({.session = verdict.session(),
                              .round = verdict.round(),
                              .node = ToInt(verdict.node()),
                              .next = std::move(next),
                              .plan = std::move(plan),
                              .acceptance = verdict.acceptance()});
  }
  return std::optional<LinkMessage>(std::move(event));
}

Result<std::optional<LinkMessage>> FromWireKnown(const v1::FromVerifier& wire) {
  switch (wire.message_case()) {
    case v1::FromVerifier::kWelcome: return FromWire(wire.welcome());
    case v1::FromVerifier::kOpen: return FromWire(wire.open());
    case v1::FromVerifier::kVerdicts: return FromWire(wire.verdicts());
    case v1::FromVerifier::kClose:
      return std::optional<LinkMessage>(CloseEvent{wire.close().session()});
    default: return std::optional<LinkMessage>(DrainEvent{});
  }
}

}  // namespace

v1::FromDrafter ToWire(const DrafterIdentity& identity) {
  v1::FromDrafter message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kSpokenProtocolVersion);
  hello->set_name(identity.name);
  hello->set_model(identity.model);
  v1::TokenizerFingerprint* tokenizer = hello->mutable_tokenizer();
  tokenizer->set_vocab_size(ToCount(identity.tokenizer.vocab_size));
  tokenizer->set_vocabulary(identity.tokenizer.vocabulary);
  tokenizer->set_merges(identity.tokenizer.merges);
  tokenizer->set_special_tokens(identity.tokenizer.special_tokens);
  hello->set_vocab_size(ToCount(identity.vocab_size));
  hello->set_max_sessions(ToCount(identity.max_sessions));
  hello->set_max_draft_length(ToCount(identity.max_draft_length));
  hello->set_max_draft_tokens(ToCount(identity.max_draft_tokens));
  hello->set_max_context(ToCount(identity.max_context));
  hello->set_acceptance_head(identity.acceptance_head);
  return message;
}

v1::FromDrafter ToWire(const std::vector<Draft>& drafts) {
  v1::FromDrafter message;
  v1::DraftBatch* batch = message.mutable_drafts();
  for (const Draft& draft : drafts) {
    v1::Draft* wire = batch->add_drafts();
    wire->set_session(draft.session);
    wire->set_round(draft.round);
    ToWire(draft.chunk, wire);
    wire->set_draft_micros(static_cast<uint32_t>(std::clamp(draft.seconds * 1e6, 0.0, 4e9)));
  }
  return message;
}

v1::FromDrafter ToWire(const DrafterLoad& load) {
  v1::FromDrafter message;
  message.mutable_load()->set_sessions(ToCount(load.sessions));
  message.mutable_load()->set_free_pages(ToCount(load.free_pages));
  message.mutable_load()->set_session_limit(ToCount(load.session_limit));
  return message;
}

Result<std::optional<LinkMessage>> FromWire(const v1::FromVerifier& wire) {
  if (wire.message_case() == v1::FromVerifier::MESSAGE_NOT_SET) {
    return std::optional<LinkMessage>();
  }
  OUTRIDER_ASSIGN(std::optional<LinkMessage> message, FromWireKnown(wire));
  return message;
}

}  // namespace outrider
