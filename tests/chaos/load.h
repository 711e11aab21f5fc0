// Client threads that keep a verifier busy with mixed requests (greedy, sampled, seeded, of every
// rule) and record failures, wrong texts and waits between chunks.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "outrider/v1/generation.pb.h"
#include "tests/support/services.h"

namespace outrider::testing {

struct LoadOptions {
  int threads = 6;
  uint32_t max_tokens = 96;
  double cancel = 0;  // fraction of the requests that are cancelled at a random chunk
  uint64_t seed = 1;
};

// The time between two chunks of one request.
struct Wait {
  Time end;
  double seconds;
};

struct LoadReport {
  int finished = 0;
  int cancelled = 0;
  std::vector<std::string> failures;  // status, or what was wrong with the text
  std::vector<Wait> waits;            // ordered by their ends, per thread
};

class Load {
 public:
  // Generates the texts of plain decoding, one request after another: the verifier must be running.
  Load(const std::string& address, const LoadOptions& options);
  ~Load();  // calls Stop

  void Start();
  // Lets running requests finish.
  void Stop();
  int finished() const { return finished_; }
  int failed() const { return failed_; }
  // Only after Stop.
  LoadReport Report();

 private:
  // A request, and its text if that is known.
  struct Job {
    v1::GenerateRequest request;
    const std::string* text = nullptr;
  };

  void Run(int thread);
  Job Draw(std::mt19937_64& random) const;
  // Returns an empty string if everything is right.
  std::string RunOne(TestClient& client, const Job& job, std::mt19937_64& random,
                     LoadReport* report) const;

  const std::string address_;
  const LoadOptions options_;
  // By prompt: the greedy text, and the text of rule GUMBEL with kSeed, neither of which may depend
  // on drafts.
  std::vector<std::string> greedy_;
  std::vector<std::string> raced_;
  std::atomic<bool> stop_{false};
  std::atomic<int> finished_{0};
  std::atomic<int> failed_{0};
  std::vector<std::thread> threads_;
  Mutex mu_;
  LoadReport report_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider::testing
