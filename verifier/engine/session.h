// The engine's state of one generation. The engine thread owns it; sessions are in the engine's
// table from Submit to their end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/grammar/draft_grammar.h"
#include "common/model/model.h"
#include "common/spec/draft.h"
#include "common/spec/sequence_sampling.h"
#include "verifier/engine/drafting_state.h"
#include "verifier/engine/logprobs.h"
#include "verifier/engine/output.h"
#include "verifier/engine/planner.h"
#include "verifier/engine/request.h"
#include "verifier/engine/sink.h"

namespace outrider {

inline constexpr SequenceId kNoSequence = -1;

// One of a request's choices, which are generated side by side.
struct RequestChoice {
  uint64_t id = 0;  // never used before
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;
  // The choice that computes the prompt of this one, too: this one waits until that one has its
  // first tokens or has ended. It asks for nothing that that one does not. nullopt: it computes its
  // own.
  std::optional<uint64_t> after = {};
};

struct Session {
  uint64_t id = 0;
  std::optional<uint64_t> after = {};  // see RequestChoice
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;

  std::vector<TokenId> tokens;  // prompt and output
  int prompt_tokens = 0;
  int max_new_tokens = 0;
  uint64_t seed = 0;
  SequenceId sequence = kNoSequence;  // its KV pages; kNoSequence: it waits for pages
  int computed = 0;                   // of `tokens`, those with KV
  uint32_t round = 1;                 // the round under way; every step that yields tokens ends one
  uint64_t served = 0;                // the step that served it last
  ResolvedSpeculation speculation;
  std::unique_ptr<SequenceSampling> sampling;
  std::unique_ptr<grammar::DraftGrammar> text_grammar;  // nullptr: unconstrained
  int64_t mask_steps = 0;  // that its masks took in the step that ended its last round
  std::unique_ptr<OutputStream> output;
  std::vector<TokenLogprobs> prompt_logprobs;  // of tokens[1], .., while the prompt is computed

  DraftingState drafting;
  std::unique_ptr<SessionPlanner> planner;  // nullptr: every round follows `speculation`
  Time round_begun;                         // when the round under way was chosen
  bool round_preempted = false;             // it has waited for pages since then

  struct Times {
    Time submitted;
    std::optional<Time> admitted;  // first admission
    Time first_token;
    Time last_token;
  };
  Times times;
  Summary summary;

  bool is_running() const { return sequence != kNoSequence; }
  int pending() const { return static_cast<int>(tokens.size()) - computed; }
  // Only the draft is missing: all of the text but the last token is computed.
  bool awaits_draft() const { return drafting.holds_round() && pending() <= 1; }
  int remaining() const {
    return max_new_tokens - (static_cast<int>(tokens.size()) - prompt_tokens);
  }
};

// By id, which is the order of arrival.
using SessionTable = std::map<uint64_t, std::unique_ptr<Session>>;

}  // namespace outrider
