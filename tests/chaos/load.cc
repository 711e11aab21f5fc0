#include "tests/chaos/load.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <iterator>
#include <random>

namespace outrider::testing {
namespace {

using Speculation = v1::SpeculationOptions;

constexpr uint64_t kSeed = 17;
// A request that takes longer counts as hanging.
constexpr auto kHangs = std::chrono::seconds(120);

constexpr const char* kPrompts[] = {
    "Once upon a time, there was a little",
    "Question: Tom has 7 apples and buys 5 more. How many",
    "def count_words(text):\n",
    "Once upon a time, a girl named Nora found a blue key",
    "Question: A shelf holds 6 boxes, and each box has 14",
    "for i in range(10):\n    print(",
};

struct Drafting {
  Speculation::Rule rule;
  uint32_t paths;
};
constexpr Drafting kSampled[] = {{Speculation::RULE_TOKEN, 1},
                                 {Speculation::RULE_BLOCK, 1},
                                 {Speculation::RULE_SPECTR, 3},
                                 {Speculation::RULE_MULTIROUND, 3},
                                 {Speculation::RULE_MULTIPATH_BLOCK, 3}};

v1::GenerateRequest Request(size_t prompt, float temperature, uint32_t max_tokens) {
  v1::GenerateRequest request = testing::TextRequest(kPrompts[prompt], max_tokens);
  request.mutable_sampling()->set_temperature(temperature);
  return request;
}

v1::GenerateRequest Raced(size_t prompt, uint32_t max_tokens) {
  v1::GenerateRequest request = Request(prompt, 1, max_tokens);
  request.mutable_speculation()->set_rule(Speculation::RULE_GUMBEL);
  request.set_seed(kSeed);
  return request;
}

std::string PlainText(TestClient& client, v1::GenerateRequest request) {
  request.mutable_speculation()->set_mode(Speculation::MODE_OFF);
  const TestClient::Outcome outcome = client.Generate(request);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  return outcome.text;
}

}  // namespace

Load::Load(const std::string& address, const LoadOptions& options)
    : address_(address), options_(options) {
  TestClient client(address_);
  for (size_t i = 0; i < std::size(kPrompts); ++i) {
    greedy_.push_back(PlainText(client, Request(i, 0, options_.max_tokens)));
    raced_.push_back(PlainText(client, Raced(i, options_.max_tokens)));
  }
}

Load::~Load() { Stop(); }

void Load::Start() {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this, i] { Run(i); });
  }
}

void Load::Stop() {
  stop_ = true;
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

LoadReport Load::Report() {
  MutexLock lock(mu_);
  return report_;
}

Load::Job Load::Draw(std::mt19937_64& random) const {
  const size_t prompt = random() % std::size(kPrompts);
  switch (random() % 4) {
    case 0: {
      Job job{Request(prompt, 0, options_.max_tokens), &greedy_[prompt]};
      if (random() % 2 == 0) job.request.mutable_speculation()->set_paths(3);
      if (random() % 2 == 0) job.request.set_seed(kSeed);
      return job;
    }
    case 1: return {Raced(prompt, options_.max_tokens), &raced_[prompt]};
    default: {
      Job job{Request(prompt, 0.8f, options_.max_tokens)};
      const Drafting& drafting = kSampled[random() % std::size(kSampled)];
      job.request.mutable_speculation()->set_rule(drafting.rule);
      job.request.mutable_speculation()->set_paths(drafting.paths);
      if (random() % 2 == 0) job.request.set_seed(random());
      return job;
    }
  }
}

std::string Load::RunOne(TestClient& client, const Job& job, std::mt19937_64& random,
                         LoadReport* report) const {
  const bool cancels = std::bernoulli_distribution(options_.cancel)(random);
  // Well before the end, even when drafts are accepted as a whole.
  uint64_t chunks_left = 1 + random() % (options_.max_tokens / 5);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kHangs);
  const auto reader = client.stub().Generate(&context, job.request);
  v1::GenerateResponse response;
  std::string text;
  uint32_t tokens = 0;
  Time last{};
  while (reader->Read(&response)) {
    const Time now = std::chrono::steady_clock::now();
    if (!response.has_chunk()) continue;
    if (tokens > 0) report->waits.push_back({now, Seconds(now - last)});
    last = now;
    text += response.chunk().text();
    tokens += static_cast<uint32_t>(response.chunk().token_ids_size());
    if (cancels && --chunks_left == 0) context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  if (cancels && status.error_code() == grpc::StatusCode::CANCELLED) {
    ++report->cancelled;
    return "";
  }
  if (!status.ok()) {
    return "status " + std::to_string(status.error_code()) + ": " + status.error_message();
  }
  if (tokens != options_.max_tokens) return std::to_string(tokens) + " tokens";
  if (job.text != nullptr && text != *job.text) {
    return "another text than plain decoding's: " + text + "\ninstead of: " + *job.text;
  }
  ++report->finished;
  return "";
}

void Load::Run(int thread) {
  std::mt19937_64 random(options_.seed * 1000 + static_cast<uint64_t>(thread));
  TestClient client(address_);
  LoadReport own;
  while (!stop_) {
    const std::string wrong = RunOne(client, Draw(random), random, &own);
    ++(wrong.empty() ? finished_ : failed_);
    if (!wrong.empty()) own.failures.push_back(wrong);
  }
  MutexLock lock(mu_);
  report_.finished += own.finished;
  report_.cancelled += own.cancelled;
  report_.failures.insert(report_.failures.end(), own.failures.begin(), own.failures.end());
  report_.waits.insert(report_.waits.end(), own.waits.begin(), own.waits.end());
}

}  // namespace outrider::testing
