// One generation as a client asks for it, checked and independent of the wire format.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/grammar/grammar_cache.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/sampling_params.h"
#include "common/spec/stop_rule.h"
#include "common/text/tokenizer.h"
#include "common/trace/span.h"

namespace outrider {

// 0, empty and unset leave the choice to the engine.
struct SpeculationOptions {
  bool enabled = true;
  std::optional<Rule> rule;
  int draft_length = 0;
  int paths = 0;          // i.i.d. sequences
  std::vector<int> tree;  // branching by depth, instead of both
  std::optional<StopRule> stop;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::optional<int> max_tokens;
  // Only max_tokens ends the output before it has this many tokens: EOS and stop tokens are not
  // sampled, and stop strings are ignored.
  int min_tokens = 0;
  std::vector<std::string> stop_strings;
  // A stop string holds a special token (AnyHoldsSpecialToken), so they are matched against the
  // text with special tokens, whether these are shown or not.
  bool stop_strings_have_special = false;
  std::vector<TokenId> stop_tokens;
  // Tokens that end an answer in the prompt's format (a chat's), in addition to the model's EOS
  // tokens. ignore_eos disables both.
  std::vector<TokenId> format_end_tokens;
  bool ignore_eos = false;
  bool skip_special = true;            // special tokens add no text
  std::vector<TokenId> shown_special;  // except these, which mark parts of an answer
  // add the stop string or stop token that ends the output to the text
  bool include_stop = false;
  std::optional<uint64_t> seed;
  SpeculationOptions speculation;
  // Alternatives to report with each token's log probability; unset: no log probabilities.
  std::optional<int> logprobs;
  // The same for the prompt's tokens, from the second on.
  std::optional<int> prompt_logprobs;
  std::optional<Time> deadline;
  // An opaque key of the client. Capacity is shared evenly among keys; including the empty one.
  std::string client;
  // sampling.grammar, compiled (CompileGrammar); nullptr without a grammar.
  std::shared_ptr<grammar::GrammarMasks> grammar_masks;
  // The trace of this request; unset: none.
  std::optional<TraceLink> trace;
};

// Values for fields that a request leaves out, from the model's own generation_config.json.
struct GenerationDefaults {
  SamplingParams sampling;
  std::optional<int> max_tokens;  // unset: as the context allows
};

// Limits of the served model, and defaults for what requests leave open.
struct RequestLimits {
  int vocab_size = 0;   // ids below this exist
  int max_context = 0;  // prompt and output together
  int kv_tokens = 0;    // what the whole KV cache holds
  // The most that a client may ask for, in depths, in sequences, and in draft tokens per round.
  int max_draft_length = 0;
  int max_paths = 0;
  int max_draft_tokens = 0;
  // Accepts only rules that are lossless even if the drafter misreports its distributions.
  bool untrusted_drafters = false;
  int max_stop_strings = 16;
  int max_stop_string_bytes = 1024;
  int max_stop_tokens = 256;
  // No longer text fits in the context, whatever its tokens are (Tokenizer::MostBytes).
  size_t max_prompt_bytes = Tokenizer::kMaxTextBytes;
  int max_waiting = 1024;  // a client's generations in the queue, hence a request's choices
  int max_bad_words = 256;
  int max_bad_word_bytes = 1024;
  GenerationDefaults defaults = {};
};

// A request with the defaults, for every front to fill in. MaxNewTokens applies the default of
// max_tokens, because it depends on the room in the context.
GenerationRequest NewRequest(const RequestLimits& limits);

// kOutOfRange if a prompt leaves no room in the context, by its tokens or, before tokenizing, by
// the bytes of its text. The caller prepends the name that its front has for the field. Only this
// cause gives kOutOfRange.
Status CheckPromptTokens(size_t tokens, const RequestLimits& limits);
Status CheckPromptBytes(size_t bytes, const RequestLimits& limits);

// How the text of a prompt is tokenized.
struct PromptTextOptions {
  bool add_special_tokens = true;  // prepend the tokenizer's prefix (BOS)
  // recognise special tokens in the text; otherwise it is plain text
  bool parse_special = false;
};

// The tokens of a text, with the prefix if `options` ask for it. Errors are those of
// Tokenizer::Encode.
Result<std::vector<TokenId>> EncodeText(const Tokenizer& tokenizer, std::string_view text,
                                        const PromptTextOptions& options);

// The prompt of a text. An empty text is valid if the tokenizer has a prefix. kInvalidArgument if
// there are no tokens; also the errors of CheckPromptBytes and EncodeText.
Result<std::vector<TokenId>> EncodePrompt(const Tokenizer& tokenizer, std::string_view text,
                                          const PromptTextOptions& options,
                                          const RequestLimits& limits);

// Whether one of `texts` contains a special token. Errors are those of Tokenizer::Encode.
Result<bool> AnyHoldsSpecialToken(const Tokenizer& tokenizer, std::span<const std::string> texts);

// The token sequences that spell `words`, at the start of a text and within one, as in vLLM: each
// word without the space before it, and after one space if that gives another first token and
// equally many tokens. kInvalidArgument "bad_words: ..". REQUIRES: `limits` allows the number and
// length of the words.
Result<std::vector<std::vector<TokenId>>> BadWordTokens(const Tokenizer& tokenizer,
                                                        std::span<const std::string> words,
                                                        const RequestLimits& limits);

// Compiles the request's grammar, if any. It takes time, so it belongs on a worker thread. Errors
// are those of Grammar::Compile. kFailedPrecondition: the model has no token that ends a text.
Status CompileGrammar(grammar::GrammarCache* grammars, GenerationRequest* request);

// kInvalidArgument, or kOutOfRange if the context has no room, with the field named. An idle engine
// can serve a request that passes.
Status Validate(const GenerationRequest& request, const RequestLimits& limits);
// The part of Validate that does not depend on the prompt, for requests with many prompts.
Status ValidateOptions(const GenerationRequest& request, const RequestLimits& limits);

// How a valid request is drafted for and verified: its own choices, then the server's.
struct SpeculationDefaults {
  int draft_length = 0;
  int paths = 1;
  StopRule stop = {};
};
struct ResolvedSpeculation {
  Rule rule = Rule::kBlock;
  DraftKind kind = DraftKind::kSampled;
  DraftShape shape;
  StopRule stop;
};
ResolvedSpeculation ResolveSpeculation(const GenerationRequest& request,
                                       const SpeculationDefaults& defaults,
                                       const RequestLimits& limits);

// Whether a seed repeats the text only if the drafts are the same. Under gumbel and at temperature
// 0 drafts do not affect the text.
bool DependsOnDrafts(const GenerationRequest& request, const ResolvedSpeculation& plan);

// The most tokens that a valid request may produce.
int MaxNewTokens(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace outrider
