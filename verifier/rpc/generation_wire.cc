#include "verifier/rpc/generation_wire.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/values_wire.h"
#include "verifier/engine/logprobs.h"

namespace outrider {
namespace {

uint32_t ToWireCount(int value) { return static_cast<uint32_t>(value); }

// In the order of Proposer::Kind.
constexpr std::array<const char*, kProposerKinds> kProposers = {"none", "drafter", "prompt lookup",
                                                                "suffix automaton", "grammar"};

void AddProposers(const EngineSnapshot& engine, v1::GetStatusResponse* wire) {
  std::vector<std::pair<double, const char*>> shares;
  for (size_t kind = 0; kind < kProposers.size(); ++kind) {
    if (engine.proposer_shares[kind] > 0) {
      shares.emplace_back(engine.proposer_shares[kind], kProposers[kind]);
    }
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [share, name] : shares) {
    v1::ProposerShare* const out = wire->add_proposers();
    out->set_proposer(name);
    out->set_share(share);
  }
}

// Compares numbers that may not fit in our types as they were sent, so that an error shows them.
Result<int> AtMost(const char* field, uint32_t value, int limit) {
  if (std::cmp_less_equal(value, limit)) return static_cast<int>(value);
  return InvalidArgument(std::string(field) + ": " + std::to_string(value) + ", at most " +
                         std::to_string(limit));
}

Result<TokenId> TokenOf(const char* field, uint32_t id, int vocab_size) {
  if (std::cmp_less(id, vocab_size)) return static_cast<TokenId>(id);
  return InvalidArgument(std::string(field) + ": token id " + std::to_string(id) +
                         " is not in the vocabulary of " + std::to_string(vocab_size));
}

Result<std::vector<TokenId>> TokensOf(const char* field,
                                      const google::protobuf::RepeatedField<uint32_t>& ids,
                                      int vocab_size) {
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(ids.size()));
  for (const uint32_t id : ids) {
    OUTRIDER_ASSIGN(tokens.emplace_back(), TokenOf(field, id, vocab_size));
  }
  return tokens;
}

Result<std::vector<TokenId>> PromptOf(const v1::GenerateRequest& wire, const Tokenizer& tokenizer,
                                      const RequestLimits& limits) {
  switch (wire.prompt_case()) {
    case v1::GenerateRequest::kText: {
      const PromptTextOptions options{
          .add_special_tokens = !wire.has_add_prefix() || wire.add_prefix(),
          .parse_special = wire.parse_special()};
      Result<std::vector<TokenId>> prompt = EncodePrompt(tokenizer, wire.text(), options, limits);
      return prompt.ok() ? std::move(prompt) : prompt.status().Annotate("text");
    }
    case v1::GenerateRequest::kTokenIds:
      return TokensOf("token_ids", wire.token_ids().ids(), limits.vocab_size);
    case v1::GenerateRequest::PROMPT_NOT_SET: break;
  }
  return InvalidArgument("prompt: neither text nor token_ids is set");
}

void ToWire(const TokenLogprobs& token, v1::TokenLogprobs* wire) {
  wire->set_logprob(token.logprob);
  wire->set_rank(ToWireCount(token.rank));
  for (const auto& [id, logprob] : token.top) {
    wire->add_top_token_ids(static_cast<uint32_t>(id));
    wire->add_top_logprobs(logprob);
  }
}

Result<SpeculationOptions> FromWire(const v1::SpeculationOptions& wire,
                                    const RequestLimits& limits) {
  SpeculationOptions options;
  switch (wire.mode()) {
    case v1::SpeculationOptions::MODE_AUTO: break;
    case v1::SpeculationOptions::MODE_OFF: options.enabled = false; break;
    default: return InvalidArgument("speculation.mode: unknown value");
  }
  OUTRIDER_ASSIGN(options.rule, outrider::FromWire(wire.rule()));
  OUTRIDER_ASSIGN(options.draft_length,
                  AtMost("speculation.draft_length", wire.draft_length(), limits.max_draft_length));
  OUTRIDER_ASSIGN(options.paths, AtMost("speculation.paths", wire.paths(), limits.max_paths));
  for (const uint32_t draws : wire.tree()) {
    OUTRIDER_ASSIGN(options.tree.emplace_back(),
                    AtMost("speculation.tree", draws, limits.max_draft_tokens));
  }
  Result<std::optional<StopRule>> stop = outrider::FromWire(wire.stop());
  if (!stop.ok()) return stop.status().Annotate("speculation.stop");
  options.stop = *stop;
  return options;
}

}  // namespace

Status CheckSizes(const v1::GenerateRequest& wire, const RequestLimits& limits) {
  if (wire.has_text()) {
    const Status fits = CheckPromptBytes(wire.text().size(), limits);
    if (!fits.ok()) return fits.Annotate("text");
  }
  if (wire.has_token_ids()) {
    const auto tokens = static_cast<size_t>(wire.token_ids().ids_size());
    const Status fits = CheckPromptTokens(tokens, limits);
    if (!fits.ok()) return fits.Annotate("token_ids");
  }
  const v1::StopConditions& stop = wire.stop();
  OUTRIDER_TRY(CheckAtMost("stop.stop_strings", stop.stop_strings_size(), limits.max_stop_strings));
  for (const std::string& text : stop.stop_strings()) {
    OUTRIDER_TRY(CheckAtMost("stop.stop_strings", std::ssize(text), limits.max_stop_string_bytes,
                             "bytes in one"));
  }
  OUTRIDER_TRY(
      CheckAtMost("stop.stop_token_ids", stop.stop_token_ids_size(), limits.max_stop_tokens));
  OUTRIDER_TRY(CheckSizes(wire.sampling(), "sampling"));
  return CheckAtMost("speculation.tree", wire.speculation().tree_size(), limits.max_draft_length,
                     "depths");
}

Result<GenerationRequest> FromWire(const v1::GenerateRequest& wire, const Tokenizer& tokenizer,
                                   const RequestLimits& limits) {
  GenerationRequest request = NewRequest(limits);
  OUTRIDER_ASSIGN(request.prompt, PromptOf(wire, tokenizer, limits));
  for (const auto& [id, bias] : wire.sampling().logit_bias()) {
    OUTRIDER_TRY(TokenOf("sampling.logit_bias", id, limits.vocab_size).status());
  }
  OUTRIDER_TRY(
      TokensOf("sampling.allowed_token_ids", wire.sampling().allowed_token_ids(), limits.vocab_size)
          .status());
  for (const v1::TokenIds& word : wire.sampling().bad_words()) {
    OUTRIDER_TRY(TokensOf("sampling.bad_words", word.ids(), limits.vocab_size).status());
  }
  request.sampling = FromWire(wire.sampling(), request.sampling);
  const v1::StopConditions& stop = wire.stop();
  if (stop.has_max_tokens()) {
    OUTRIDER_ASSIGN(request.max_tokens,
                    AtMost("stop.max_tokens", stop.max_tokens(), limits.max_context));
  }
  OUTRIDER_ASSIGN(request.min_tokens,
                  AtMost("stop.min_tokens", stop.min_tokens(), limits.max_context));
  request.stop_strings.assign(stop.stop_strings().begin(), stop.stop_strings().end());
  OUTRIDER_ASSIGN(request.stop_tokens,
                  TokensOf("stop.stop_token_ids", stop.stop_token_ids(), limits.vocab_size));
  request.ignore_eos = stop.ignore_eos();
  request.include_stop = stop.include_stop();
  request.skip_special = !wire.has_skip_special() || wire.skip_special();
  OUTRIDER_ASSIGN(request.stop_strings_have_special,
                  AnyHoldsSpecialToken(tokenizer, request.stop_strings));
  if (wire.has_seed()) request.seed = wire.seed();
  if (wire.has_logprobs()) {
    OUTRIDER_ASSIGN(request.logprobs, AtMost("logprobs", wire.logprobs(), kMaxTopLogprobs));
  }
  if (wire.has_prompt_logprobs()) {
    OUTRIDER_ASSIGN(request.prompt_logprobs,
                    AtMost("prompt_logprobs", wire.prompt_logprobs(), kMaxTopLogprobs));
  }
  OUTRIDER_ASSIGN(request.speculation, FromWire(wire.speculation(), limits));
  return request;
}

Result<std::string> Detokenize(const v1::DetokenizeRequest& wire, const Tokenizer& tokenizer,
                               int vocab_size) {
  OUTRIDER_TRY(CheckAtMost("token_ids", wire.token_ids_size(), kMaxDetokenizeIds));
  std::vector<TokenId> ids;
  size_t bytes = 0;
  for (const uint32_t id : wire.token_ids()) {
    OUTRIDER_ASSIGN(ids.emplace_back(), TokenOf("token_ids", id, vocab_size));
    bytes += tokenizer.TokenBytes(ids.back()).size();
    if (bytes > Tokenizer::kMaxTextBytes) {
      return InvalidArgument("token_ids: a text of more than " +
                             std::to_string(Tokenizer::kMaxTextBytes) + " bytes");
    }
  }
  return tokenizer.Decode(ids, wire.skip_special());
}

v1::GenerateResponse ToWire(const Chunk& chunk) {
  v1::GenerateResponse response;
  v1::TokenChunk* wire = response.mutable_chunk();
  wire->set_text(chunk.text);
  wire->mutable_token_ids()->Assign(chunk.tokens.begin(), chunk.tokens.end());
  wire->set_accepted(ToWireCount(chunk.accepted));
  wire->set_drafted(ToWireCount(chunk.drafted));
  for (const TokenLogprobs& token : chunk.logprobs) ToWire(token, wire->add_logprobs());
  for (const TokenLogprobs& token : chunk.prompt_logprobs) {
    ToWire(token, wire->add_prompt_logprobs());
  }
  return response;
}

v1::GenerateResponse ToWire(const Summary& summary) {
  v1::GenerateResponse response;
  v1::Finished* wire = response.mutable_finished();
  wire->set_reason(summary.reason == FinishReason::kStop ? v1::Finished::REASON_STOP
                                                         : v1::Finished::REASON_LENGTH);
  wire->set_prompt_tokens(ToWireCount(summary.prompt_tokens));
  wire->set_completion_tokens(ToWireCount(summary.completion_tokens));
  wire->set_cached_tokens(ToWireCount(summary.cached_tokens));
  wire->set_seed(summary.seed);
  v1::SpeculationStats* stats = wire->mutable_speculation();
  stats->set_rounds(ToWireCount(summary.rounds));
  stats->set_drafted_rounds(ToWireCount(summary.drafted_rounds));
  stats->set_drafted_tokens(ToWireCount(summary.drafted_tokens));
  stats->set_accepted_tokens(ToWireCount(summary.accepted_tokens));
  stats->set_forced_tokens(ToWireCount(summary.forced_tokens));
  stats->mutable_accepted_per_position()->Assign(summary.accepted_per_position.begin(),
                                                 summary.accepted_per_position.end());
  for (const auto& [name, rounds] : summary.arm_rounds) {
    v1::ArmRounds* const arm = stats->add_arms();
    arm->set_arm(name);
    arm->set_rounds(static_cast<uint32_t>(rounds));
  }
  stats->set_arm_switches(static_cast<uint32_t>(summary.arm_switches));
  v1::Timing* timing = wire->mutable_timing();
  timing->set_queue_seconds(summary.queue_seconds);
  timing->set_prefill_seconds(summary.prefill_seconds);
  timing->set_decode_seconds(summary.decode_seconds);
  return response;
}

v1::GetStatusResponse ToWire(const EngineSnapshot& engine,
                             const std::vector<DrafterSnapshot>& drafters) {
  v1::GetStatusResponse wire;
  AddProposers(engine, &wire);
  wire.set_draining(engine.draining);
  wire.set_sessions_running(ToWireCount(engine.running));
  wire.set_sessions_waiting(ToWireCount(engine.waiting));
  wire.set_kv_pages_total(ToWireCount(engine.total_pages));
  wire.set_kv_pages_free(ToWireCount(engine.free_pages));
  wire.set_kv_pages_cached(ToWireCount(engine.cached_pages));
  for (const DrafterSnapshot& d : drafters) {
    v1::DrafterStatus* out = wire.add_drafters();
    out->set_name(d.name);
    out->set_model(d.model);
    out->set_sessions(ToWireCount(d.sessions));
    out->set_max_sessions(ToWireCount(d.max_sessions));
    out->set_connected_seconds(d.connected_seconds);
    out->set_drafted_tokens(d.drafted_tokens);
    out->set_accepted_tokens(d.accepted_tokens);
    out->set_round_trip_ms(d.round_trip_ms);
    out->set_drafting_ms(d.drafting_ms);
    out->set_reported_sessions(ToWireCount(d.reported_sessions));
    out->set_acceptance_head(d.acceptance_head);
    if (!d.match.has_value()) continue;
    v1::VocabularyStatus* vocabulary = out->mutable_vocabulary();
    vocabulary->set_shared(ToWireCount(d.match->shared));
    vocabulary->set_tokens(ToWireCount(d.match->tokens));
    vocabulary->set_target_tokens(ToWireCount(d.target_tokens));
  }
  for (const SessionSnapshot& s : engine.sessions) {
    v1::SessionStatus* out = wire.add_sessions();
    out->set_id(s.id);
    out->set_phase(s.phase);
    out->set_prompt_tokens(ToWireCount(s.prompt_tokens));
    out->set_completion_tokens(ToWireCount(s.completion_tokens));
    out->set_drafter(s.drafter);
    out->set_drafted_tokens(ToWireCount(s.drafted_tokens));
    out->set_accepted_tokens(ToWireCount(s.accepted_tokens));
  }
  return wire;
}

}  // namespace outrider
