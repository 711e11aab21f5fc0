// Which sessions go into the next forward pass, and with how many tokens. Pure: no clock, no
// device.
//
// Decode steps come first (their rows are few and somebody reads along), least recently served
// first; then prefill in order of arrival, in chunks. A quarter of the budget is kept for prefill
// while any waits, so that neither kind starves. Nobody waits for anybody's draft: whoever is ready
// goes.
#pragma once

#include <cstdint>
#include <vector>

namespace outrider {

struct Candidate {
  int index = 0;         // the caller's name for the session
  int pending = 0;       // known tokens whose KV is not computed yet, >= 1
  int draft = 0;         // draft tokens that would follow them
  uint64_t served = 0;   // the step that served it last, 0: none yet
  uint64_t arrival = 0;  // rises with every session
};

struct Share {
  int index = 0;
  int pending = 0;    // how many of the pending tokens to compute now
  bool last = false;  // they include the last one: the session gets logits and its draft is scored
};

struct SchedulerOptions {
  int token_budget = 512;   // rows of one forward pass
  int prefill_chunk = 256;  // of these, prompt tokens: bounds how long decoding waits for a prompt
};

// REQUIRES: pending + draft of a decoding candidate fits the token budget less its prefill part.
std::vector<Share> ChooseShares(std::vector<Candidate> candidates, const SchedulerOptions& options);

}  // namespace outrider
