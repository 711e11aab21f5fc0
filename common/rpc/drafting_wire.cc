#include "common/rpc/drafting_wire.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/rpc/values_wire.h"

namespace outrider {
namespace {

using Ids = google::protobuf::RepeatedField<uint32_t>;

constexpr uint32_t kTokenKinds = 4;  // TokenKind's values are below

uint32_t ToCount(int value) { return static_cast<uint32_t>(value); }

Status CheckIds(const Ids& ids) {
  for (const uint32_t id : ids) {
    if (id > static_cast<uint32_t>(std::numeric_limits<TokenId>::max())) {
      return InvalidArgument("token id " + std::to_string(id) + " is not an id");
    }
  }
  return Status();
}

Result<std::vector<TokenId>> TokensFromWire(const Ids& wire, const char* field) {
  OUTRIDER_TRY(CheckAtMost(field, wire.size(), kMaxSessionTokens));
  OUTRIDER_TRY(CheckIds(wire));
  return std::vector<TokenId>(wire.begin(), wire.end());
}

v1::DraftKind ToWire(DraftKind kind) {
  switch (kind) {
    case DraftKind::kSampled: return v1::DRAFT_KIND_SAMPLED;
    case DraftKind::kArgmax: return v1::DRAFT_KIND_ARGMAX;
    case DraftKind::kRace: return v1::DRAFT_KIND_RACE;
  }
  return v1::DRAFT_KIND_SAMPLED;
}

Result<DraftKind> FromWire(v1::DraftKind wire) {
  switch (wire) {
    case v1::DRAFT_KIND_SAMPLED: return DraftKind::kSampled;
    case v1::DRAFT_KIND_ARGMAX: return DraftKind::kArgmax;
    case v1::DRAFT_KIND_RACE: return DraftKind::kRace;
    default: return InvalidArgument("draft kind " + std::to_string(wire) + " is unknown");
  }
}

void ToWire(const DraftDistribution& q, v1::DraftRow* wire) {
  std::vector<size_t> order(q.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&q](size_t a, size_t b) { return q.ids[a] < q.ids[b]; });
  TokenId before = 0;
  for (const size_t i : order) {
    wire->add_id_gaps(static_cast<uint32_t>(q.ids[i] - before));
    wire->add_weights(q.weights[i]);
    before = q.ids[i];
  }
}

Result<DraftDistribution> FromWire(const v1::DraftRow& wire, int max_entries) {
  OUTRIDER_TRY(CheckAtMost("rows.id_gaps", wire.id_gaps_size(), max_entries));
  OUTRIDER_TRY(CheckAtMost("rows.weights", wire.weights_size(), max_entries));
  if (wire.id_gaps_size() != wire.weights_size()) {
    return InvalidArgument("a row of " + std::to_string(wire.id_gaps_size()) + " ids and " +
                           std::to_string(wire.weights_size()) + " weights");
  }
  DraftDistribution q;
  q.ids.reserve(static_cast<size_t>(wire.id_gaps_size()));
  uint64_t id = 0;
  for (const uint32_t gap : wire.id_gaps()) {
    id += gap;
    if (id > static_cast<uint64_t>(std::numeric_limits<TokenId>::max())) {
      return InvalidArgument("token id " + std::to_string(id) + " is not an id");
    }
    q.ids.push_back(static_cast<TokenId>(id));
  }
  q.weights.assign(wire.weights().begin(), wire.weights().end());
  return q;
}

}  // namespace

v1::FromDrafter ToWire(const DrafterHello& hello) {
  v1::FromDrafter message;
  v1::Hello* wire = message.mutable_hello();
  wire->set_protocol_version(ToCount(hello.protocol.lowest));
  wire->set_highest_protocol_version(ToCount(hello.protocol.highest));
  wire->set_name(hello.name);
  wire->set_model(hello.model);
  v1::TokenizerFingerprint* tokenizer = wire->mutable_tokenizer();
  tokenizer->set_vocab_size(ToCount(hello.tokenizer.vocab_size));
  tokenizer->set_vocabulary(hello.tokenizer.vocabulary);
  tokenizer->set_merges(hello.tokenizer.merges);
  tokenizer->set_special_tokens(hello.tokenizer.special_tokens);
  wire->set_vocab_size(ToCount(hello.vocab_size));
  wire->set_max_sessions(ToCount(hello.max_sessions));
  wire->set_max_draft_length(ToCount(hello.max_draft_length));
  wire->set_max_draft_tokens(ToCount(hello.max_draft_tokens));
  wire->set_max_context(ToCount(hello.max_context));
  wire->set_acceptance_head(hello.acceptance_head);
  wire->set_translates(hello.translates);
  wire->set_visit(hello.visit);
  return message;
}

Result<DrafterHello> FromWire(const v1::Hello& wire) {
  OUTRIDER_TRY(CheckAtMost("hello.name", std::ssize(wire.name()), kMaxNameBytes, "bytes"));
  OUTRIDER_TRY(CheckAtMost("hello.model", std::ssize(wire.model()), kMaxNameBytes, "bytes"));
  const int lowest = ToInt(wire.protocol_version());
  const int highest = ToInt(wire.highest_protocol_version());
  return DrafterHello{.protocol = {.lowest = lowest, .highest = highest == 0 ? lowest : highest},
                      .name = wire.name(),
                      .model = wire.model(),
                      .tokenizer = {.vocabulary = wire.tokenizer().vocabulary(),
                                    .merges = wire.tokenizer().merges(),
                                    .special_tokens = wire.tokenizer().special_tokens(),
                                    .vocab_size = ToInt(wire.tokenizer().vocab_size())},
                      .vocab_size = ToInt(wire.vocab_size()),
                      .max_sessions = ToInt(wire.max_sessions()),
                      .max_draft_length = ToInt(wire.max_draft_length()),
                      .max_draft_tokens = ToInt(wire.max_draft_tokens()),
                      .max_context = ToInt(wire.max_context()),
                      .acceptance_head = wire.acceptance_head(),
                      .translates = wire.translates(),
                      .visit = wire.visit()};
}

void ToWire(const DraftPart& part, v1::Draft* wire) {
  wire->set_session(part.session);
  wire->set_round(part.round);
  wire->mutable_token_ids()->Assign(part.chunk.tokens.begin(), part.chunk.tokens.end());
  wire->mutable_parents()->Assign(part.chunk.parents.begin(), part.chunk.parents.end());
  for (const DraftDistribution& q : part.chunk.distributions) ToWire(q, wire->add_rows());
  wire->set_more(part.chunk.more);
  wire->set_draft_micros(static_cast<uint32_t>(std::clamp(part.seconds * 1e6, 0.0, 4e9)));
  if (part.early.has_value()) {
    wire->mutable_early()->set_node(static_cast<uint32_t>(part.early->node));
    wire->mutable_early()->set_next(static_cast<uint32_t>(part.early->next));
  }
}

v1::FromDrafter ToWire(const std::vector<DraftPart>& parts) {
  v1::FromDrafter message;
  v1::DraftBatch* batch = message.mutable_drafts();
  for (const DraftPart& part : parts) ToWire(part, batch->add_drafts());
  return message;
}

Result<std::vector<DraftPart>> FromWire(const v1::DraftBatch& wire, int max_row_entries) {
  OUTRIDER_TRY(CheckAtMost("drafts", wire.drafts_size(), kMaxBatchEntries));
  std::vector<DraftPart> parts;
  for (const v1::Draft& draft : wire.drafts()) {
    OUTRIDER_ASSIGN(parts.emplace_back(), FromWire(draft, max_row_entries));
  }
  return parts;
}

Result<DraftPart> FromWire(const v1::Draft& wire, int max_row_entries) {
  OUTRIDER_TRY(CheckAtMost("token_ids", wire.token_ids_size(), kMaxChunkDraws));
  OUTRIDER_TRY(CheckAtMost("parents", wire.parents_size(), kMaxChunkDraws));
  OUTRIDER_TRY(CheckAtMost("rows", wire.rows_size(), kMaxChunkDraws));
  if (wire.parents_size() > wire.token_ids_size() || wire.rows_size() > wire.token_ids_size()) {
    return InvalidArgument(std::to_string(wire.parents_size()) + " parents and " +
                           std::to_string(wire.rows_size()) + " rows for " +
                           std::to_string(wire.token_ids_size()) + " draft tokens");
  }
  OUTRIDER_TRY(CheckIds(wire.token_ids()));
  OUTRIDER_TRY(CheckIds(wire.parents()));
  DraftPart part{.session = wire.session(),
                 .round = wire.round(),
                 .chunk = {},
                 .seconds = 1e-6 * wire.draft_micros()};
  if (wire.has_early()) {
    part.early = RoundEnd{.node = ToInt(wire.early().node()), .next = ToInt(wire.early().next())};
  }
  DraftChunk& chunk = part.chunk;
  chunk.tokens.assign(wire.token_ids().begin(), wire.token_ids().end());
  chunk.parents.assign(wire.parents().begin(), wire.parents().end());
  chunk.more = wire.more();
  chunk.distributions.reserve(static_cast<size_t>(wire.rows_size()));
  for (const v1::DraftRow& row : wire.rows()) {
    OUTRIDER_ASSIGN(DraftDistribution q, FromWire(row, max_row_entries));
    chunk.distributions.push_back(std::move(q));
  }
  return part;
}

v1::FromDrafter ToWire(const DrafterLoad& load) {
  v1::FromDrafter message;
  v1::Load* wire = message.mutable_load();
  wire->set_sessions(ToCount(load.sessions));
  wire->set_free_pages(ToCount(load.free_pages));
  if (load.session_limit.has_value()) wire->set_session_limit(ToCount(*load.session_limit));
  return message;
}

DrafterLoad FromWire(const v1::Load& wire) {
  DrafterLoad load{.sessions = ToInt(wire.sessions()), .free_pages = ToInt(wire.free_pages())};
  if (wire.has_session_limit()) load.session_limit = ToInt(wire.session_limit());
  return load;
}

v1::FromVerifier ToWire(const VocabularyEntries& vocabulary) {
  v1::FromVerifier message;
  v1::Vocabulary* wire = message.mutable_vocabulary();
  wire->mutable_entries()->Reserve(vocabulary.size());
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    wire->add_entries(kTokenKinds * static_cast<uint32_t>(vocabulary.bytes(id).size()) +
                      static_cast<uint32_t>(vocabulary.kind(id)));
  }
  wire->set_text(vocabulary.text());
  wire->mutable_end_tokens()->Assign(vocabulary.end_tokens().begin(),
                                     vocabulary.end_tokens().end());
  return message;
}

Result<VocabularyEntries> FromWire(const v1::Vocabulary& wire) {
  OUTRIDER_TRY(
      CheckAtMost("vocabulary.entries", wire.entries_size(), VocabularyEntries::kMaxEntries));
  OUTRIDER_TRY(CheckAtMost("vocabulary.text", std::ssize(wire.text()),
                           VocabularyEntries::kMaxTextBytes, "bytes"));
  OUTRIDER_TRY(CheckAtMost("vocabulary.end_tokens", wire.end_tokens_size(),
                           VocabularyEntries::kMaxEndTokens));
  OUTRIDER_TRY(CheckIds(wire.end_tokens()));
  VocabularyEntries vocabulary;
  std::string_view text = wire.text();
  for (const uint32_t entry : wire.entries()) {
    const size_t bytes = entry / kTokenKinds;
    if (bytes > text.size()) {
      return InvalidArgument(
          "vocabulary: the tokens have more bytes than vocabulary.text, which "
          "ends within id " +
          std::to_string(vocabulary.size()));
    }
    OUTRIDER_TRY(
        vocabulary.Add(static_cast<TokenKind>(entry % kTokenKinds), text.substr(0, bytes)));
    text.remove_prefix(bytes);
  }
  if (!text.empty()) {
    return InvalidArgument("vocabulary: " + std::to_string(text.size()) +
                           " bytes of vocabulary.text belong to no token");
  }
  for (const uint32_t id : wire.end_tokens()) {
    OUTRIDER_TRY(vocabulary.AddEndToken(static_cast<TokenId>(id)));
  }
  return vocabulary;
}

v1::FromDrafter ToWire(const VocabularyMatch& match) {
  v1::FromDrafter message;
  message.mutable_match()->set_shared(ToCount(match.shared));
  message.mutable_match()->set_tokens(ToCount(match.tokens));
  return message;
}

VocabularyMatch FromWire(const v1::VocabularyMatch& wire) {
  return {.shared = ToInt(wire.shared()), .tokens = ToInt(wire.tokens())};
}

v1::FromVerifier ToWire(const DrafterWelcome& welcome) {
  v1::FromVerifier message;
  v1::Welcome* wire = message.mutable_welcome();
  wire->set_protocol_version(ToCount(welcome.protocol));
  wire->set_model(welcome.model);
  wire->set_zone(welcome.zone);
  wire->set_vocab_limit(ToCount(welcome.vocab_limit));
  wire->mutable_law_limits()->set_mass(welcome.distribution_limits.mass);
  wire->mutable_law_limits()->set_max_entries(ToCount(welcome.distribution_limits.max_entries));
  return message;
}

Result<DrafterWelcome> FromWire(const v1::Welcome& wire) {
  const int protocol = ToInt(wire.protocol_version());
  if (!AgreeOnProtocol({}, {.lowest = protocol, .highest = protocol}).has_value()) {
    return FailedPrecondition("protocol version: the drafter speaks " + ToString(ProtocolRange{}) +
                              ", the verifier " + std::to_string(protocol) +
                              "; upgrade the older one");
  }
  OUTRIDER_TRY(CheckAtMost("welcome.model", std::ssize(wire.model()), kMaxNameBytes, "bytes"));
  OUTRIDER_TRY(CheckAtMost("welcome.zone", std::ssize(wire.zone()), kMaxNameBytes, "bytes"));
  const float mass = wire.law_limits().mass();
  const uint32_t max_entries = wire.law_limits().max_entries();
  if (wire.vocab_limit() == 0) return InvalidArgument("welcome: vocab_limit is 0");
  if (!(mass > 0.f && mass <= 1.f)) {
    return InvalidArgument("welcome: law_limits.mass is " + std::to_string(mass));
  }
  if (max_entries == 0) return InvalidArgument("welcome: law_limits.max_entries is 0");
  return DrafterWelcome{
      .protocol = protocol,
      .model = wire.model(),
      .zone = wire.zone(),
      .vocab_limit = ToInt(wire.vocab_limit()),
      // There cannot be more entries than units of weight.
      .distribution_limits = {
          .mass = mass, .max_entries = static_cast<int>(std::min(max_entries, kDraftWeightTotal))}};
}

v1::FromVerifier ToWire(const SessionOpening& opening) {
  v1::FromVerifier message;
  v1::Open* wire = message.mutable_open();
  wire->set_session(opening.session);
  wire->mutable_token_ids()->Assign(opening.tokens.begin(), opening.tokens.end());
  wire->set_prompt_tokens(ToCount(opening.prompt_tokens));
  ToWire(opening.sampling, wire->mutable_sampling());
  wire->set_seed(opening.seed);
  wire->set_kind(ToWire(opening.kind));
  ToWire(opening.plan, wire->mutable_plan());
  wire->set_traceparent(opening.traceparent);
  return message;
}

Result<SessionOpening> FromWire(const v1::Open& wire) {
  SessionOpening opening;
  opening.session = wire.session();
  OUTRIDER_TRY(
      CheckAtMost("open.traceparent", std::ssize(wire.traceparent()), kMaxNameBytes, "bytes"));
  OUTRIDER_TRY(CheckSizes(wire.sampling(), "open"));
  OUTRIDER_ASSIGN(opening.tokens, TokensFromWire(wire.token_ids(), "open.token_ids"));
  opening.prompt_tokens = ToInt(wire.prompt_tokens());
  opening.sampling = FromWire(wire.sampling());
  opening.seed = wire.seed();
  OUTRIDER_ASSIGN(opening.kind, FromWire(wire.kind()));
  OUTRIDER_ASSIGN(opening.plan, FromWire(wire.plan()));
  opening.traceparent = wire.traceparent();
  return opening;
}

v1::FromVerifier ToWire(const std::vector<SessionVerdict>& decisions) {
  v1::FromVerifier message;
  for (const SessionVerdict& d : decisions) {
    v1::Verdict* wire = message.mutable_verdicts()->add_verdicts();
    wire->set_session(d.session);
    wire->set_round(d.round);
    wire->set_node(ToCount(d.node));
    wire->mutable_next()->Assign(d.next.begin(), d.next.end());
    ToWire(d.plan, wire->mutable_plan());
    wire->set_acceptance(d.acceptance);
  }
  return message;
}

Result<std::vector<SessionVerdict>> FromWire(const v1::VerdictBatch& wire) {
  OUTRIDER_TRY(CheckAtMost("verdicts", wire.verdicts_size(), kMaxVerdicts));
  std::vector<SessionVerdict> decisions;
  decisions.reserve(static_cast<size_t>(wire.verdicts_size()));
  for (const v1::Verdict& verdict : wire.verdicts()) {
    OUTRIDER_ASSIGN(std::vector<TokenId> next, TokensFromWire(verdict.next(), "verdicts.next"));
    OUTRIDER_ASSIGN(DraftPlan plan, FromWire(verdict.plan()));
    OUTRIDER_TRY(CheckAtMost("verdicts.acceptance", std::ssize(verdict.acceptance()),
                             kMaxChunkDraws, "bytes"));
    decisions.push_back({.session = verdict.session(),
                         .round = verdict.round(),
                         .node = ToInt(verdict.node()),
                         .next = std::move(next),
                         .plan = std::move(plan),
                         .acceptance = verdict.acceptance()});
  }
  return decisions;
}

void ToWire(const DraftPlan& plan, v1::Plan* wire) {
  wire->set_round(plan.round);
  if (plan.stop.kind != StopRule::Kind::kLength) ToWire(plan.stop, wire->mutable_stop());
  wire->set_length(ToCount(plan.shape.length));
  for (const int draws : plan.shape.branching) wire->add_branching(ToCount(draws));
}

Result<DraftPlan> FromWire(const v1::Plan& wire) {
  OUTRIDER_TRY(CheckAtMost("plan.branching", wire.branching_size(), kMaxChunkDraws));
  OUTRIDER_ASSIGN(const std::optional<StopRule> stop, FromWire(wire.stop()));
  DraftPlan plan{.round = wire.round(),
                 .shape = {.length = ToInt(wire.length()), .branching = {}},
                 .stop = stop.value_or(StopRule{})};
  for (const uint32_t draws : wire.branching()) plan.shape.branching.push_back(ToInt(draws));
  return plan;
}

v1::FromVerifier ToWire(const DrafterDemand& demand) {
  v1::FromVerifier message;
  message.mutable_demand()->set_wanted(ToCount(demand.wanted));
  message.mutable_demand()->set_attached(ToCount(demand.attached));
  return message;
}

DrafterDemand FromWire(const v1::Demand& wire) {
  return {.wanted = ToInt(wire.wanted()), .attached = ToInt(wire.attached())};
}

v1::FromVerifier CloseMessage(uint64_t session) {
  v1::FromVerifier message;
  message.mutable_close()->set_session(session);
  return message;
}

v1::FromVerifier DrainMessage() {
  v1::FromVerifier message;
  message.mutable_drain();
  return message;
}

}  // namespace outrider
