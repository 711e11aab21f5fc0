// Chooses which sessions go into the next forward pass, and with how many tokens. Pure: no clock,
// no device.
//
// Decode steps come first (their rows are few and users read along), least recently served first;
// then prefill in order of arrival, in chunks. A quarter of the budget is reserved for prefill
// while any waits, so that neither kind starves. No session waits for another's draft.
#pragma once

#include <cstdint>
#include <vector>

namespace outrider {

struct Candidate {
  int index = 0;           // the caller's index of the session
  int pending = 0;         // known tokens without KV, >= 1
  int draft = 0;           // draft tokens that follow them
  int64_t mask_steps = 0;  // that the masks of its round are expected to take
  uint64_t served = 0;     // the step that served it last; 0: none yet
  uint64_t arrival = 0;    // increases with every session
};

struct Share {
  int index = 0;
  int pending = 0;    // pending tokens to compute now
  bool last = false;  // reaches the last one: the session gets logits and its draft is scored
};

struct SchedulerOptions {
  int token_budget = 512;  // rows of one forward pass
  // prompt tokens among these: bounds how long decoding waits for a prompt
  int prefill_chunk = 256;
  // Steps of grammars' masks in one forward pass, of 5 to 20 ns: rounds beyond them take turns, so
  // that they do not delay others for seconds.
  int64_t mask_steps = 4'000'000;
};

// REQUIRES: pending + draft of a decoding candidate fits the token budget less its prefill share.
std::vector<Share> ChooseShares(std::vector<Candidate> candidates, const SchedulerOptions& options);

}  // namespace outrider
