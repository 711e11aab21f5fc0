#include "common/rpc/values_wire.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace outrider {
namespace {

void ToWire(const GrammarSource& source, v1::StructuredOutput* wire) {
  switch (source.kind) {
    case GrammarSource::Kind::kJsonObject: wire->set_json_object(true); break;
    case GrammarSource::Kind::kJsonSchema: wire->set_json_schema(source.text); break;
    case GrammarSource::Kind::kRegex: wire->set_regex(source.text); break;
    case GrammarSource::Kind::kChoice:
      wire->mutable_choice()->mutable_texts()->Assign(source.choices.begin(), source.choices.end());
      break;
    case GrammarSource::Kind::kGbnf: wire->set_gbnf(source.text); break;
  }
  for (const SchemaRule& rule : source.schemas) {
    v1::SchemaRule* const out = wire->add_schemas();
    out->set_name(rule.name);
    out->set_schema(rule.schema);
    out->mutable_path()->Assign(rule.path.begin(), rule.path.end());
  }
}

// See GrammarSource::bytes.
int64_t SourceBytes(const v1::StructuredOutput& wire) {
  int64_t bytes =
      std::ssize(wire.json_schema()) + std::ssize(wire.regex()) + std::ssize(wire.gbnf());
  for (const std::string& text : wire.choice().texts()) bytes += std::ssize(text) + 1;
  for (const v1::SchemaRule& rule : wire.schemas()) {
    bytes += std::ssize(rule.name()) + std::ssize(rule.schema());
    for (const std::string& step : rule.path()) bytes += std::ssize(step) + 1;
  }
  return bytes;
}

Status CheckSizes(const v1::StructuredOutput& wire, const std::string& name) {
  OUTRIDER_TRY(CheckAtMost(name + ".choice", wire.choice().texts_size(), kMaxGrammarChoices));
  OUTRIDER_TRY(CheckAtMost(name + ".schemas", wire.schemas_size(), kMaxGrammarSchemas));
  if (wire.schemas_size() > 0 && !wire.has_gbnf()) {
    return InvalidArgument(name + ".schemas: these are rules of gbnf, which is not set");
  }
  return CheckAtMost(name, SourceBytes(wire), static_cast<int64_t>(kMaxGrammarBytes), "bytes");
}

// No constraint is requested if no format is set.
std::optional<GrammarSource> FromWire(const v1::StructuredOutput& wire) {
  using Kind = GrammarSource::Kind;
  switch (wire.format_case()) {
    case v1::StructuredOutput::kJsonObject:
      if (!wire.json_object()) return std::nullopt;
      return GrammarSource{.kind = Kind::kJsonObject};
    case v1::StructuredOutput::kJsonSchema:
      return GrammarSource{.kind = Kind::kJsonSchema, .text = wire.json_schema()};
    case v1::StructuredOutput::kRegex:
      return GrammarSource{.kind = Kind::kRegex, .text = wire.regex()};
    case v1::StructuredOutput::kChoice:
      return GrammarSource{.kind = Kind::kChoice,
                           .choices = {wire.choice().texts().begin(), wire.choice().texts().end()}};
    case v1::StructuredOutput::kGbnf: {
      GrammarSource source{.kind = Kind::kGbnf, .text = wire.gbnf()};
      for (const v1::SchemaRule& rule : wire.schemas()) {
        source.schemas.push_back({.name = rule.name(),
                                  .schema = rule.schema(),
                                  .path = {rule.path().begin(), rule.path().end()}});
      }
      return source;
    }
    case v1::StructuredOutput::FORMAT_NOT_SET: break;
  }
  return std::nullopt;
}

std::vector<TokenId> TokensOf(const google::protobuf::RepeatedField<uint32_t>& wire) {
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(wire.size()));
  for (const uint32_t token : wire) tokens.push_back(ToInt(token));
  return tokens;
}

}  // namespace

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
  wire->mutable_allowed_token_ids()->Assign(params.allowed_tokens.begin(),
                                            params.allowed_tokens.end());
  for (const std::vector<TokenId>& word : params.bad_words) {
    wire->add_bad_words()->mutable_ids()->Assign(word.begin(), word.end());
  }
  if (params.grammar.has_value()) ToWire(*params.grammar, wire->mutable_structured_output());
}

Status CheckSizes(const v1::SamplingParams& wire, const std::string& name) {
  OUTRIDER_TRY(CheckAtMost(name + ".logit_bias", std::ssize(wire.logit_bias()), kMaxLogitBias));
  OUTRIDER_TRY(
      CheckAtMost(name + ".allowed_token_ids", wire.allowed_token_ids_size(), kMaxAllowedTokens));
  OUTRIDER_TRY(CheckAtMost(name + ".bad_words", wire.bad_words_size(), kMaxBadWords));
  for (const v1::TokenIds& word : wire.bad_words()) {
    OUTRIDER_TRY(
        CheckAtMost(name + ".bad_words", word.ids_size(), kMaxBadWordTokens, "tokens in one"));
  }
  return CheckSizes(wire.structured_output(), name + ".structured_output");
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
  params.allowed_tokens = TokensOf(wire.allowed_token_ids());
  std::vector<std::vector<TokenId>> words;
  for (const v1::TokenIds& word : wire.bad_words()) words.push_back(TokensOf(word.ids()));
  params.bad_words = std::move(words);
  params.grammar = FromWire(wire.structured_output());
  return params;
}

v1::SpeculationOptions::Rule ToWire(Rule rule) {
  return static_cast<v1::SpeculationOptions::Rule>(rule);
}

Result<std::optional<Rule>> FromWire(v1::SpeculationOptions::Rule wire) {
  if (wire == v1::SpeculationOptions::RULE_DEFAULT) return std::optional<Rule>();
  for (const RuleTraits& rule : kRuleTraits) {
    if (ToWire(rule.rule) == wire) return std::optional(rule.rule);
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
      // A threshold without a kind would be ignored, and so would NaN.
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

}  // namespace outrider
