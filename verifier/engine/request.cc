#include "verifier/engine/request.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "verifier/engine/logprobs.h"

namespace outrider {
namespace {

Status CheckToken(TokenId token, int vocab_size, const char* field) {
  if (token >= 0 && token < vocab_size) return Status();
  return InvalidArgument(std::string(field) + ": token id " + std::to_string(token) +
                         " is not in the vocabulary of " + std::to_string(vocab_size));
}

Status CheckAlternatives(const std::string& field, const std::optional<int>& count) {
  if (count.value_or(0) >= 0 && count.value_or(0) <= kMaxTopLogprobs) return Status();
  return InvalidArgument(field + ": " + std::to_string(*count) + ", at most " +
                         std::to_string(kMaxTopLogprobs));
}

// For what does not fit in the model's context.
Status ExceedsContext(std::string message) { return Status(Code::kOutOfRange, std::move(message)); }

Status CheckLength(const GenerationRequest& request, const RequestLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("prompt: is empty");
  if (const Status fits = CheckPromptTokens(request.prompt.size(), limits); !fits.ok()) {
    return fits.Annotate("prompt");
  }
  if (request.max_tokens.has_value()) {
    if (*request.max_tokens < 1) return InvalidArgument("stop.max_tokens: must be 1 or more");
    if (prompt + *request.max_tokens > limits.max_context) {
      return ExceedsContext("stop.max_tokens: " + std::to_string(*request.max_tokens) +
                            " after a prompt of " + std::to_string(prompt) +
                            " tokens is too long for the context of " +
                            std::to_string(limits.max_context));
    }
  }
  if (request.prompt_logprobs.has_value() &&
      prompt * (1 + *request.prompt_logprobs) > kMaxPromptLogprobs) {
    return InvalidArgument(
        "prompt_logprobs: " + std::to_string(prompt * (1 + *request.prompt_logprobs)) +
        " of a prompt of " + std::to_string(prompt) + " tokens, at most " +
        std::to_string(kMaxPromptLogprobs));
  }
  const int most = MaxNewTokens(request, limits);
  const int64_t needed = prompt + std::max(most, 1);
  if (needed > limits.kv_tokens) {
    return InvalidArgument("stop.max_tokens: prompt and output need " + std::to_string(needed) +
                           " tokens of KV cache, this server holds " +
                           std::to_string(limits.kv_tokens) +
                           "; ask for fewer or start it with a larger --kv-tokens");
  }
  if (request.min_tokens < 0 || request.min_tokens > most) {
    return InvalidArgument("stop.min_tokens: " + std::to_string(request.min_tokens) +
                           ", must be from 0 to the " + std::to_string(most) +
                           " tokens that the output may have");
  }
  return Status();
}

Status CheckRule(const GenerationRequest& request, const RequestLimits& limits) {
  if (!request.speculation.rule.has_value()) return Status();
  const Rule rule = *request.speculation.rule;
  const std::string field = "speculation.rule: " + std::string(RuleName(rule));
  if (limits.untrusted_drafters && request.speculation.enabled && !request.sampling.greedy() &&
      rule != Rule::kGumbel) {
    return FailedPrecondition(field +
                              " rests on the drafters' honesty; this server (--untrusted-drafters) "
                              "takes gumbel, temperature 0 or speculation off");
  }
  const bool many = request.speculation.paths > 1 ||
                    std::any_of(request.speculation.tree.begin(), request.speculation.tree.end(),
                                [](int draws) { return draws > 1; });
  if (many && !TakesManyPaths(rule)) {
    std::string others;
    for (const RuleTraits& traits : kRuleTraits) {
      if (traits.takes_many_paths)
        others += (others.empty() ? "" : ", ") + std::string(traits.name);
    }
    return InvalidArgument(field + " verifies one sequence; ask for one path, or for one of " +
                           others);
  }
  return Status();
}

Status CheckSpeculation(const GenerationRequest& request, const RequestLimits& limits) {
  const SpeculationOptions& asked = request.speculation;
  const auto check = [](const char* field, int value, int limit) {
    if (value >= 0 && value <= limit) return Status();
    return InvalidArgument("speculation." + std::string(field) + ": " + std::to_string(value) +
                           ", at most " + std::to_string(limit));
  };
  OUTRIDER_TRY(check("draft_length", asked.draft_length, limits.max_draft_length));
  OUTRIDER_TRY(check("paths", asked.paths, limits.max_paths));
  if (!asked.tree.empty()) {
    if (asked.draft_length != 0 || asked.paths != 0) {
      return InvalidArgument("speculation.tree: excludes draft_length and paths");
    }
    OUTRIDER_TRY(
        CheckAtMost("speculation.tree", std::ssize(asked.tree), limits.max_draft_length, "depths"));
    for (const int draws : asked.tree) {
      if (draws < 1) return InvalidArgument("speculation.tree: every depth draws at least once");
    }
    const DraftShape shape{.length = static_cast<int>(asked.tree.size()), .branching = asked.tree};
    if (shape.total_draws() > limits.max_draft_tokens) {
      return InvalidArgument("speculation.tree: more than " +
                             std::to_string(limits.max_draft_tokens) + " draft tokens a round");
    }
  }
  if (asked.stop.has_value()) {
    OUTRIDER_TRY(Validate(*asked.stop).Annotate("speculation.stop.threshold"));
  }
  return CheckRule(request, limits);
}

}  // namespace

Status CheckPromptTokens(size_t tokens, const RequestLimits& limits) {
  if (std::cmp_less(tokens, limits.max_context)) return Status();
  return ExceedsContext(std::to_string(tokens) + " tokens leave no room in the context of " +
                        std::to_string(limits.max_context) + "; at most " +
                        std::to_string(limits.max_context - 1));
}

Status CheckPromptBytes(size_t bytes, const RequestLimits& limits) {
  if (bytes <= limits.max_prompt_bytes) return Status();
  return ExceedsContext(std::to_string(bytes) + " bytes of text, but the context of " +
                        std::to_string(limits.max_context) + " tokens holds at most " +
                        std::to_string(limits.max_prompt_bytes) + " bytes; shorten the prompt");
}

Result<std::vector<TokenId>> EncodeText(const Tokenizer& tokenizer, std::string_view text,
                                        const PromptTextOptions& options) {
  OUTRIDER_ASSIGN(const std::vector<TokenId> ids, tokenizer.Encode(text, options.parse_special));
  std::vector<TokenId> tokens;
  if (options.add_special_tokens) tokens = tokenizer.prompt_prefix();
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  if (options.add_special_tokens) {
    const std::vector<TokenId>& suffix = tokenizer.prompt_suffix();
    tokens.insert(tokens.end(), suffix.begin(), suffix.end());
  }
  return tokens;
}

Result<std::vector<TokenId>> EncodePrompt(const Tokenizer& tokenizer, std::string_view text,
                                          const PromptTextOptions& options,
                                          const RequestLimits& limits) {
  OUTRIDER_TRY(CheckPromptBytes(text.size(), limits));
  OUTRIDER_ASSIGN(std::vector<TokenId> prompt, EncodeText(tokenizer, text, options));
  if (prompt.empty()) return InvalidArgument("the prompt is empty, and no BOS token begins it");
  return prompt;
}

Result<bool> AnyHoldsSpecialToken(const Tokenizer& tokenizer, std::span<const std::string> texts) {
  for (const std::string& text : texts) {
    OUTRIDER_ASSIGN(const std::vector<TokenId> ids, tokenizer.Encode(text, /*parse_special=*/true));
    if (std::any_of(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.IsSpecial(id); })) {
      return true;
    }
  }
  return false;
}

Result<std::vector<std::vector<TokenId>>> BadWordTokens(const Tokenizer& tokenizer,
                                                        std::span<const std::string> words,
                                                        const RequestLimits& limits) {
  OUTRIDER_TRY(CheckAtMost("bad_words", std::ssize(words), limits.max_bad_words));
  std::vector<std::vector<TokenId>> sequences;
  for (const std::string& word : words) {
    OUTRIDER_TRY(
        CheckAtMost("bad_words", std::ssize(word), limits.max_bad_word_bytes, "bytes in one"));
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\n\r"), word.size()));
    if (bare.empty()) return InvalidArgument("bad_words: a word without a letter");
    OUTRIDER_ASSIGN(std::vector<TokenId> first, tokenizer.Encode(bare, /*parse_special=*/true));
    OUTRIDER_ASSIGN(std::vector<TokenId> inside,
                    tokenizer.Encode(" " + bare, /*parse_special=*/true));
    if (first.empty()) return InvalidArgument("bad_words: a word that no token spells");
    const bool differs = inside.size() == first.size() && inside[0] != first[0];
    sequences.push_back(std::move(first));
    if (differs) sequences.push_back(std::move(inside));
  }
  return sequences;
}

Status CompileGrammar(grammar::GrammarCache* grammars, GenerationRequest* request) {
  const SharedValue<GrammarSource>& source = request->sampling.grammar;
  if (!source.has_value()) return Status();
  if (grammars->tokens().end_tokens().empty()) {
    return FailedPrecondition("the model has no end-of-sequence token to end such a text with");
  }
  OUTRIDER_ASSIGN(request->grammar_masks, grammars->Get(*source));
  return Status();
}

GenerationRequest NewRequest(const RequestLimits& limits) {
  return {.sampling = limits.defaults.sampling};
}

Status Validate(const GenerationRequest& request, const RequestLimits& limits) {
  OUTRIDER_TRY(CheckAlternatives("prompt_logprobs", request.prompt_logprobs));
  OUTRIDER_TRY(CheckLength(request, limits));
  for (const TokenId token : request.prompt) {
    OUTRIDER_TRY(CheckToken(token, limits.vocab_size, "prompt"));
  }
  return ValidateOptions(request, limits);
}

Status ValidateOptions(const GenerationRequest& request, const RequestLimits& limits) {
  OUTRIDER_TRY(Validate(request.sampling, limits.vocab_size));
  if (request.sampling.grammar.has_value() && request.ignore_eos) {
    return InvalidArgument(
        "stop.ignore_eos: an end of sequence ends a structured output; leave one "
        "of them out");
  }
  OUTRIDER_TRY(
      CheckAtMost("stop.stop_token_ids", std::ssize(request.stop_tokens), limits.max_stop_tokens));
  for (const TokenId token : request.stop_tokens) {
    OUTRIDER_TRY(CheckToken(token, limits.vocab_size, "stop.stop_token_ids"));
  }
  OUTRIDER_TRY(
      CheckAtMost("stop.stop_strings", std::ssize(request.stop_strings), limits.max_stop_strings));
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) return InvalidArgument("stop.stop_strings: an empty string");
    OUTRIDER_TRY(CheckAtMost("stop.stop_strings", std::ssize(stop), limits.max_stop_string_bytes,
                             "bytes in one"));
  }
  OUTRIDER_TRY(CheckAlternatives("logprobs", request.logprobs));
  OUTRIDER_TRY(CheckAlternatives("prompt_logprobs", request.prompt_logprobs));
  return CheckSpeculation(request, limits);
}

ResolvedSpeculation ResolveSpeculation(const GenerationRequest& request,
                                       const SpeculationDefaults& defaults,
                                       const RequestLimits& limits) {
  const SpeculationOptions& asked = request.speculation;
  ResolvedSpeculation plan;
  const auto orelse = [](int value, int otherwise) { return value > 0 ? value : otherwise; };
  if (!asked.tree.empty()) {
    plan.shape = {.length = static_cast<int>(asked.tree.size()), .branching = asked.tree};
  } else {
    const bool one = asked.rule.has_value() && !TakesManyPaths(*asked.rule);
    plan.shape = Sequences(one ? 1 : orelse(asked.paths, defaults.paths),
                           orelse(asked.draft_length, defaults.draft_length));
  }
  while (plan.shape.total_draws() > limits.max_draft_tokens) --plan.shape.length;
  // A seed should repeat the text, which it does under gumbel whatever is drafted.
  const Rule usual = limits.untrusted_drafters || request.seed.has_value() ? Rule::kGumbel
                     : plan.shape.leaves() > 1                             ? Rule::kMultiPathBlock
                                                                           : Rule::kBlock;
  plan.rule = asked.rule.value_or(usual);
  plan.kind = DraftKindOf(plan.rule, request.sampling.greedy());
  plan.stop = asked.stop.value_or(defaults.stop);
  if (plan.stop.threshold == 0.f) plan.stop.threshold = DefaultThreshold(plan.stop.kind);
  return plan;
}

bool DependsOnDrafts(const GenerationRequest& request, const ResolvedSpeculation& plan) {
  return request.seed.has_value() && plan.kind == DraftKind::kSampled;
}

int MaxNewTokens(const GenerationRequest& request, const RequestLimits& limits) {
  const auto prompt = static_cast<int>(request.prompt.size());
  if (request.max_tokens.has_value()) {
    return std::min(limits.max_context - prompt, *request.max_tokens);
  }
  const int room = std::min(limits.max_context, limits.kv_tokens) - prompt;
  return std::min(room, limits.defaults.max_tokens.value_or(room));
}

}  // namespace outrider
