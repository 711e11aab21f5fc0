// One generation as a client asks for it, in plain words: what remains of the wire once it is
// checked.
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
  std::vector<int> tree;  // branching by depth in place of both
  std::optional<StopRule> stop;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::optional<int> max_tokens;
  // Nothing but max_tokens ends the output before it has so many tokens: ends of sequence and stop
  // tokens are not sampled, and stop strings are not looked for.
  int min_tokens = 0;
  std::vector<std::string> stop_strings;
  // One of them holds a special token (AnyHoldsSpecialToken): they are looked for in the text with
  // the special tokens, whether these are shown or not.
  bool stop_strings_have_special = false;
  std::vector<TokenId> stop_tokens;
  // Tokens that end an answer in the format of the prompt (a chat's), beside the model's own ends
  // of sequence; ignore_eos switches off both.
  std::vector<TokenId> format_end_tokens;
  bool ignore_eos = false;
  bool skip_special = true;            // special tokens are no text
  std::vector<TokenId> shown_special;  // but these: they mark parts of an answer
  bool include_stop = false;           // the stop string or stop token that ends the output is text
  std::optional<uint64_t> seed;
  SpeculationOptions speculation;
  // How many alternatives to tell with each token's log probability; unset: none of both.
  std::optional<int> logprobs;
  // The same of the prompt's tokens, from the second on.
  std::optional<int> prompt_logprobs;
  std::optional<Time> deadline;
  // Who asks, an opaque key: places are shared out evenly among keys. Empty is a key like any
  // other.
  std::string client;
  // sampling.grammar, compiled (CompileGrammar); nullptr where there is none.
  std::shared_ptr<grammar::GrammarMasks> grammar_masks;
  // The trace that it is part of; unset: none.
  std::optional<TraceLink> trace;
};

// What a request gets where it leaves a field out, from the model's own generation_config.json.
struct GenerationDefaults {
  SamplingParams sampling;
  std::optional<int> max_tokens;  // unset: as the context allows
};

// What the served model can take, and what requests get that leave it open.
struct RequestLimits {
  int vocab_size = 0;   // ids below this exist
  int max_context = 0;  // prompt and output together
  int kv_tokens = 0;    // what the whole KV cache holds
  // What a client may ask for at most, in depths, in sequences, and in draws a round.
  int max_draft_length = 0;
  int max_paths = 0;
  int max_draft_tokens = 0;
  // Drafts are taken only under rules that are lossless whatever the drafter says of its draws.
  bool untrusted_drafters = false;
  int max_stop_strings = 16;
  int max_stop_string_bytes = 1024;
  int max_stop_tokens = 256;
  // No longer text fits the context, whatever tokens it becomes (Tokenizer::MostBytes).
  size_t max_prompt_bytes = Tokenizer::kMaxTextBytes;
  int max_bad_words = 256;
  int max_bad_word_bytes = 1024;
  GenerationDefaults defaults = {};
};

// A request that has the defaults, for what a client says to be written over. Every front begins
// with it; the default of max_tokens is MaxNewTokens' to apply, as it gives way to the context.
GenerationRequest NewRequest(const RequestLimits& limits);

// kOutOfRange where a prompt leaves no room in the context: by its tokens, and by the bytes of its
// text before it is tokenized. The field's name, which each front has its own for, is the caller's
// to put before it. Nothing else is kOutOfRange, so it says the cause.
Status CheckPromptTokens(size_t tokens, const RequestLimits& limits);
Status CheckPromptBytes(size_t bytes, const RequestLimits& limits);

// How the text of a prompt becomes tokens.
struct PromptTextOptions {
  bool add_special_tokens = true;  // the tokenizer's prefix (BOS) comes first
  bool parse_special = false;      // special tokens are found in the text; else it is plain text
};

// The tokens of a text, with the prefix if `options` ask for it. Errors are Tokenizer::Encode's.
Result<std::vector<TokenId>> EncodeText(const Tokenizer& tokenizer, std::string_view text,
                                        const PromptTextOptions& options);

// The prompt that a text makes. An empty text is a prompt where the tokenizer has a prefix.
// kInvalidArgument for one without tokens; CheckPromptBytes' and EncodeText's errors.
Result<std::vector<TokenId>> EncodePrompt(const Tokenizer& tokenizer, std::string_view text,
                                          const PromptTextOptions& options,
                                          const RequestLimits& limits);

// Whether a special token is in one of `texts`. Errors are Tokenizer::Encode's.
Result<bool> AnyHoldsSpecialToken(const Tokenizer& tokenizer, std::span<const std::string> texts);

// The token sequences that spell `words`, at the start of a text and within one, as vLLM makes
// them: each word without the space before it, and after one space where that is another first
// token and as many of them. kInvalidArgument "bad_words: ..". REQUIRES: no more and no longer
// words than `limits` has.
Result<std::vector<std::vector<TokenId>>> BadWordTokens(const Tokenizer& tokenizer,
                                                        std::span<const std::string> words,
                                                        const RequestLimits& limits);

// Compiles what the output is to follow, if anything, for a worker thread: it takes time. Errors
// are those of Grammar::Compile. kFailedPrecondition: the model has no token that ends a text.
Status CompileGrammar(grammar::GrammarCache* grammars, GenerationRequest* request);

// kInvalidArgument, or kOutOfRange where the context has no room, with the field named; a request
// that passes can be served by an idle engine.
Status Validate(const GenerationRequest& request, const RequestLimits& limits);
// Of it what does not depend on the prompt, for whoever copies the rest to many prompts.
Status ValidateOptions(const GenerationRequest& request, const RequestLimits& limits);

// How a valid request is verified and drafted for, its own choices before the server's.
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

// Whether a seed repeats the text only while the drafts are the same: under gumbel and at
// temperature 0 no draft leaves a trace in it.
bool DependsOnDrafts(const GenerationRequest& request, const ResolvedSpeculation& plan);

// The tokens that a valid request may produce at most.
int MaxNewTokens(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace outrider
