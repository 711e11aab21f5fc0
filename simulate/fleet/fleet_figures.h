// What a fleet run measures.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

// Counts of positive numbers in bins whose bounds are 2 % apart: quantiles in bounded memory.
class LogHistogram {
 public:
  void Add(double value);
  int64_t count() const { return count_; }
  double Mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The middle of the bin that holds the quantile; 0 without any.
  double Quantile(double share) const;

 private:
  std::vector<int64_t> bins_;
  int64_t count_ = 0;
  double sum_ = 0;
};

// A part of the run.
struct FleetInterval {
  double seconds = 0;  // its length; the last one may be shorter than the others
  double tokens = 0;
  int64_t arrived = 0;
  int64_t rejected = 0;
  int64_t failed = 0;
  double first_token_seconds = 0;  // sum over `first_tokens`
  int64_t first_tokens = 0;
  double between_tokens_seconds = 0;  // sum over `finished`, of their means
  int64_t finished = 0;               // requests of more than one chunk
  int verifiers = 0;                  // at its end
  int drafters = 0;
  double drafter_busy = 0;  // share of the time
  double verifier_busy = 0;
};

// What rates are fitted to (rate_fit.h), in runs of every round: sums over verifiers. A request
// decodes from its first chunk of tokens to its end.
struct PassSums {
  double passes = 0;        // that began while a request decoded
  double decoding = 0;      // such requests at each of these passes
  double idle_seconds = 0;  // before these passes, without one
  double rows = 0;          // of all passes, less those that read prompts or preempted texts
  double tokens = 0;        // of requests that decode
  double first_chunks = 0;
  double first_tokens = 0;  // in first chunks
  double drafted = 0;       // draft tokens
  double accepted = 0;

  void Add(const PassSums& other, double factor = 1);
};

struct FleetFigures {
  double seconds = 0;  // that count
  double tokens = 0;
  int64_t arrived = 0;
  int64_t finished = 0;
  int64_t rejected = 0;         // no room: to be tried again later
  int64_t failed = 0;           // by the end of a verifier
  LogHistogram first_token;     // seconds from arrival
  LogHistogram between_tokens;  // seconds, each request's mean after the first token
  LogHistogram longest_pause;   // seconds, each request's longest between two chunks; none by rates
  double draft_tokens = 0;
  double accepted_tokens = 0;
  PassSums passes;           // empty by rates
  double verifier_busy = 0;  // share of the time in passes
  double drafter_busy = 0;
  double plan_seconds = 0;  // from plans to their drafts, without drafters in verifiers
  double verifier_hours = 0;
  double drafter_hours = 0;
  double price = 0;
  int64_t expelled = 0;  // drafters whose stream a verifier closed for a protocol error
  std::vector<FleetInterval> timeline;

  double TokensPerSecond() const { return seconds > 0 ? tokens / seconds : 0; }
  // 0: nothing was produced.
  double PricePerMillion() const { return tokens > 0 ? price / tokens * 1e6 : 0; }
};

}  // namespace outrider
