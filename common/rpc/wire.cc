#include "common/rpc/wire.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace outrider {

int ToInt(uint32_t value) {
  return static_cast<int>(std::min(value, static_cast<uint32_t>(std::numeric_limits<int>::max())));
}

void ToWire(const SamplingParams& params, v1::SamplingParams* wire) {
  wire->set_temperature(params.temperature);
  wire->set_top_k(static_cast<uint32_t>(params.top_k));
  wire->set_top_p(params.top_p);
  wire->set_min_p(params.min_p);
  wire->set_repetition_penalty(params.repetition_penalty);
  wire->set_presence_penalty(params.presence_penalty);
  wire->set_frequency_penalty(params.frequency_penalty);
  for (const auto& [token, bias] : params.logit_bias) {
    (*wire->mutable_logit_bias())[static_cast<uint32_t>(token)] = bias;
  }
}

SamplingParams FromWire(const v1::SamplingParams& wire, const SamplingParams& defaults) {
  SamplingParams params = defaults;
  if (wire.has_temperature()) params.temperature = wire.temperature();
  constexpr auto kMax = static_cast<uint32_t>(std::numeric_limits<int>::max());
  if (wire.has_top_k()) params.top_k = static_cast<int>(std::min(wire.top_k(), kMax));
  if (wire.has_top_p()) params.top_p = wire.top_p();
  if (wire.has_min_p()) params.min_p = wire.min_p();
  if (wire.has_repetition_penalty()) params.repetition_penalty = wire.repetition_penalty();
  params.presence_penalty = wire.presence_penalty();
  params.frequency_penalty = wire.frequency_penalty();
  for (const auto& [token, bias] : wire.logit_bias()) {
    params.logit_bias.emplace_back(static_cast<TokenId>(std::min(token, kMax)), bias);
  }
  return params;
}

v1::SpeculationOptions::Rule ToWire(Rule rule) {
  switch (rule) {
    case Rule::kToken: return v1::SpeculationOptions::RULE_TOKEN;
    case Rule::kBlock: return v1::SpeculationOptions::RULE_BLOCK;
    case Rule::kSpecTr: return v1::SpeculationOptions::RULE_SPECTR;
    case Rule::kMultiRound: return v1::SpeculationOptions::RULE_MULTIROUND;
    case Rule::kMultiPathBlock: return v1::SpeculationOptions::RULE_MULTIPATH_BLOCK;
    case Rule::kGumbel: return v1::SpeculationOptions::RULE_GUMBEL;
  }
  return v1::SpeculationOptions::RULE_DEFAULT;
}

Result<std::optional<Rule>> FromWire(v1::SpeculationOptions::Rule wire) {
  if (wire == v1::SpeculationOptions::RULE_DEFAULT) return std::optional<Rule>();
  for (const Rule rule : kAllRules) {
    if (ToWire(rule) == wire) return std::optional(rule);
  }
  return InvalidArgument("speculation.rule: no rule has the number " + std::to_string(wire));
}

void ToWire(const StopRule& rule, v1::StopRule* wire) {
  const auto kind = [&rule] {
    switch (rule.kind) {
      case StopRule::Kind::kLength: return v1::StopRule::KIND_LENGTH;
      case StopRule::Kind::kConfidence: return v1::StopRule::KIND_CONFIDENCE;
      case StopRule::Kind::kEntropy: return v1::StopRule::KIND_ENTROPY;
      case StopRule::Kind::kHead: return v1::StopRule::KIND_HEAD;
    }
    return v1::StopRule::KIND_DEFAULT;
  };
  wire->set_kind(kind());
  wire->set_threshold(rule.threshold);
}

Result<std::optional<StopRule>> FromWire(const v1::StopRule& wire) {
  StopRule rule{.threshold = wire.threshold()};
  switch (wire.kind()) {
    case v1::StopRule::KIND_DEFAULT:
      // A threshold without a kind would be ignored. A NaN is not 0 either.
      if (wire.threshold() != 0.f) {
        return InvalidArgument("stop rule: threshold " + std::to_string(wire.threshold()) +
                               " without a kind; name the kind that it belongs to");
      }
      return std::optional<StopRule>();
    case v1::StopRule::KIND_LENGTH: break;
    case v1::StopRule::KIND_CONFIDENCE: rule.kind = StopRule::Kind::kConfidence; break;
    case v1::StopRule::KIND_ENTROPY: rule.kind = StopRule::Kind::kEntropy; break;
    case v1::StopRule::KIND_HEAD: rule.kind = StopRule::Kind::kHead; break;
    default: return InvalidArgument("stop rule: unknown kind");
  }
  OUTRIDER_TRY(Validate(rule));
  return std::optional(rule);
}

void ToWire(const DraftShape& shape, uint32_t round, const StopRule& stop, v1::Plan* wire) {
  wire->set_round(round);
  if (stop.kind != StopRule::Kind::kLength) ToWire(stop, wire->mutable_stop());
  wire->set_length(static_cast<uint32_t>(shape.length));
  for (const int draws : shape.branching) wire->add_branching(static_cast<uint32_t>(draws));
}

DraftShape FromWire(const v1::Plan& wire) {
  DraftShape shape{.length = ToInt(wire.length())};
  for (const uint32_t draws : wire.branching()) shape.branching.push_back(ToInt(draws));
  return shape;
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

namespace {

void ToWire(const DraftLaw& law, v1::DraftRow* wire) {
  std::vector<size_t> order(law.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&law](size_t a, size_t b) { return law.ids[a] < law.ids[b]; });
  TokenId before = 0;
  for (const size_t i : order) {
    wire->add_id_gaps(static_cast<uint32_t>(law.ids[i] - before));
    wire->add_weights(law.weights[i]);
    before = law.ids[i];
  }
}

}  // namespace

void ToWire(const DraftChunk& chunk, v1::Draft* wire) {
  wire->mutable_token_ids()->Assign(chunk.tokens.begin(), chunk.tokens.end());
  wire->mutable_parents()->Assign(chunk.parents.begin(), chunk.parents.end());
  for (const DraftLaw& law : chunk.laws) ToWire(law, wire->add_rows());
  wire->set_more(chunk.more);
}

namespace {

Status CheckIds(const google::protobuf::RepeatedField<uint32_t>& ids) {
  for (const uint32_t id : ids) {
    if (id > static_cast<uint32_t>(std::numeric_limits<TokenId>::max())) {
      return InvalidArgument("token id " + std::to_string(id) + " is no id");
    }
  }
  return Status();
}

Result<DraftLaw> FromWire(const v1::DraftRow& wire, int max_entries) {
  OUTRIDER_TRY(CheckAtMost("rows.id_gaps", wire.id_gaps_size(), max_entries));
  OUTRIDER_TRY(CheckAtMost("rows.weights", wire.weights_size(), max_entries));
  if (wire.id_gaps_size() != wire.weights_size()) {
    return InvalidArgument("a row of " + std::to_string(wire.id_gaps_size()) + " ids and " +
                           std::to_string(wire.weights_size()) + " weights");
  }
  DraftLaw law;
  law.ids.reserve(static_cast<size_t>(wire.id_gaps_size()));
  uint64_t id = 0;
  for (const uint32_t gap : wire.id_gaps()) {
    id += gap;
    if (id > static_cast<uint64_t>(std::numeric_limits<TokenId>::max())) {
      return InvalidArgument("token id " + std::to_string(id) + " is no id");
    }
    law.ids.push_back(static_cast<TokenId>(id));
  }
  law.weights.assign(wire.weights().begin(), wire.weights().end());
  return law;
}

}  // namespace

Result<DraftChunk> FromWire(const v1::Draft& wire, int max_row_entries) {
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
  DraftChunk chunk;
  chunk.tokens.assign(wire.token_ids().begin(), wire.token_ids().end());
  chunk.parents.assign(wire.parents().begin(), wire.parents().end());
  chunk.more = wire.more();
  chunk.laws.reserve(static_cast<size_t>(wire.rows_size()));
  for (const v1::DraftRow& row : wire.rows()) {
    OUTRIDER_ASSIGN(DraftLaw law, FromWire(row, max_row_entries));
    chunk.laws.push_back(std::move(law));
  }
  return chunk;
}

}  // namespace outrider
