// Computes the figures of a benchmark from records of its requests. Pure: no clock, no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// When the tokens of one request arrived.
class TokenTimes {
 public:
  explicit TokenTimes(Time sent) : last_(sent) {}

  // A chunk of `tokens` tokens arrived at `now`. The first chunk's wait is the time to first token;
  // in a later one, each token counts an equal share of the time since the previous chunk.
  void OnChunk(Time now, int tokens);

  const std::optional<double>& ttft_ms() const { return ttft_ms_; }
  const std::vector<double>& itl_ms() const { return itl_ms_; }

 private:
  Time last_;
  std::optional<double> ttft_ms_;
  std::vector<double> itl_ms_;
};

// What became of one of a benchmark's requests.
struct BenchRequest {
  Status status;
  std::string domain;  // "": none
  std::optional<double> ttft_ms;
  std::vector<double> itl_ms;
  std::optional<double> start_delay_ms;  // from when a rate asked for it to its start
  double seconds = 0;                    // from its start to its end
  bool interrupted = false;              // by the user, before its end
  // From the verifier's last message; 0 if the request failed.
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of these, found in the verifier's prefix cache
  // From the verifier's last message or, if the request failed, from its chunks.
  uint64_t completion_tokens = 0;
  uint64_t rounds = 0;
  uint64_t drafted_rounds = 0;
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  // Rounds by who was to draft them, if the server chose that (not in a request's first round):
  // "plain" (nobody), "draft" (a drafter, which may not have drafted), "lookup", "suffix".
  std::map<std::string, uint64_t> rounds_by_proposer;

  // Refused for lack of room before it began.
  bool refused() const { return status.code() == Code::kResourceExhausted && !ttft_ms.has_value(); }
};

struct Percentiles {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};

// Linear interpolation between the closest ranks; nullopt without values.
std::optional<Percentiles> PercentilesOf(std::vector<double> values);

// Failed requests only count in requests_failed, requests_refused, refusal_ms and errors;
// interrupted ones count with what had arrived. nullopt: there was nothing to measure.
struct BenchReport {
  // Set by the caller: the user interrupted the benchmark before all requests were made.
  bool interrupted = false;
  int requests_interrupted = 0;
  int requests_ok = 0;
  int requests_failed = 0;
  int requests_refused = 0;                   // of the failed ones
  std::optional<double> started_per_second;   // of two requests or more that a rate starts
  std::optional<Percentiles> start_delay_ms;  // latencies leave it out
  double seconds = 0;  // from the first request's start to the last one's end
  uint64_t prompt_tokens = 0;
  uint64_t cached_prompt_tokens = 0;  // found in a verifier's prefix cache
  uint64_t completion_tokens = 0;
  double tokens_per_second = 0;
  std::optional<Percentiles> ttft_ms;
  std::optional<Percentiles> itl_ms;
  std::optional<Percentiles> tpot_ms;     // a request's mean after its first token
  std::optional<Percentiles> latency_ms;  // from a request's start to its end
  std::optional<Percentiles> refusal_ms;  // from a refused request's start to its answer
  uint64_t rounds = 0;
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  // Accepted draft tokens over rounds with a draft; 0 if there were none.
  double accepted_per_round = 0;
  std::map<std::string, double> accepted_per_round_by_domain;
  std::map<std::string, uint64_t> rounds_by_proposer;
  std::map<std::string, int> errors;  // by code name
  // Set by the caller: what each verifier got, and the most requests that one had in flight above
  // ceil(1.25 * mean of all) when a request began there.
  struct Verifier {
    std::string address;
    int requests = 0;
    int most_in_flight = 0;
  };
  std::vector<Verifier> verifiers;
  int most_above_bound = 0;
};

// `starting_seconds`: from the first request's start to the last one's, if a rate starts them; else
// nullopt.
BenchReport Summarise(const std::vector<BenchRequest>& records, double seconds,
                      std::optional<double> starting_seconds);

}  // namespace outrider
