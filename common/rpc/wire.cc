#include "common/rpc/wire.h"

#include <limits>
#include <string>

namespace outrider {

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

SamplingParams FromWire(const v1::SamplingParams& wire) {
  SamplingParams params;
  if (wire.has_temperature()) params.temperature = wire.temperature();
  constexpr auto kMax = static_cast<uint32_t>(std::numeric_limits<int>::max());
  params.top_k = static_cast<int>(std::min(wire.top_k(), kMax));
  if (wire.has_top_p()) params.top_p = wire.top_p();
  params.min_p = wire.min_p();
  if (wire.has_repetition_penalty()) params.repetition_penalty = wire.repetition_penalty();
  params.presence_penalty = wire.presence_penalty();
  params.frequency_penalty = wire.frequency_penalty();
  for (const auto& [token, bias] : wire.logit_bias()) {
    params.logit_bias.emplace_back(static_cast<TokenId>(std::min(token, kMax)), bias);
  }
  return params;
}

void ToWire(const DraftPath& path, v1::DraftPath* wire) {
  wire->mutable_token_ids()->Assign(path.tokens.begin(), path.tokens.end());
  for (const DraftLaw& law : path.laws) {
    v1::DraftRow* row = wire->add_rows();
    row->mutable_token_ids()->Assign(law.ids.begin(), law.ids.end());
    row->mutable_weights()->Assign(law.weights.begin(), law.weights.end());
  }
}

namespace {

bool FitsTokenId(uint32_t id) {
  return id <= static_cast<uint32_t>(std::numeric_limits<TokenId>::max());
}

}  // namespace

Result<DraftPath> FromWire(const v1::DraftPath& wire) {
  DraftPath path;
  for (const uint32_t id : wire.token_ids()) {
    if (!FitsTokenId(id)) return InvalidArgument("token id " + std::to_string(id) + " is no id");
  }
  path.tokens.assign(wire.token_ids().begin(), wire.token_ids().end());
  if (wire.rows_size() != 0 && wire.rows_size() != wire.token_ids_size()) {
    return InvalidArgument(std::to_string(wire.rows_size()) + " rows for " +
                           std::to_string(wire.token_ids_size()) + " tokens");
  }
  path.laws.reserve(static_cast<size_t>(wire.rows_size()));
  for (const v1::DraftRow& row : wire.rows()) {
    if (row.token_ids_size() != row.weights_size()) {
      return InvalidArgument("a row of " + std::to_string(row.token_ids_size()) + " ids and " +
                             std::to_string(row.weights_size()) + " weights");
    }
    for (const uint32_t id : row.token_ids()) {
      if (!FitsTokenId(id)) return InvalidArgument("token id " + std::to_string(id) + " is no id");
    }
    DraftLaw& law = path.laws.emplace_back();
    law.ids.assign(row.token_ids().begin(), row.token_ids().end());
    law.weights.assign(row.weights().begin(), row.weights().end());
  }
  return path;
}

}  // namespace outrider
