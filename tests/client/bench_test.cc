#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/client/command.h"
#include "tests/client/fake_generation.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Bench : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_) << "{\"prompt\": \"one\", \"domain\": \"stories\"}\n"
                            "{\"prompt\": \"two\", \"domain\": \"code\", \"max_tokens\": 3}\n"
                            "{\"prompt\": \"three\"}\n";
  }

  CommandResult Run(const FakeGeneration& fake, std::vector<std::string> more,
                    const CommandSetting& setting = {}) {
    std::vector<std::string> arguments = {"bench", "--verifier", fake.address(), "--prompts",
                                          path_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunOutrider(arguments, setting);
  }

  const testing::TempDir dir_;
  const std::string path_ = dir_ / "prompts.jsonl";
};

// Four tokens in two rounds; "code" (prompt two) has both drafted tokens accepted, the rest one.
grpc::Status FourTokens(const v1::GenerateRequest& request, GenerateWriter* writer) {
  const uint32_t accepted = request.text() == "two" ? 2 : 1;
  writer->Write(Chunk("a", {1}));
  writer->Write(Chunk("bcd", {2, 3, 4}, accepted, 2));
  v1::GenerateResponse last = Finished(1, 4);
  last.mutable_finished()->mutable_speculation()->set_rounds(2);
  last.mutable_finished()->mutable_speculation()->set_drafted_rounds(1);
  last.mutable_finished()->mutable_speculation()->set_drafted_tokens(2);
  last.mutable_finished()->mutable_speculation()->set_accepted_tokens(accepted);
  for (const auto& [arm, rounds] : {std::pair("draft-1x2", 1), std::pair("plain", 1)}) {
    v1::ArmRounds* const entry = last.mutable_finished()->mutable_speculation()->add_arms();
    entry->set_arm(arm);
    entry->set_rounds(rounds);
  }
  writer->Write(last);
  return grpc::Status::OK;
}

TEST_F(Bench, JsonHasFiguresOfAllRequests) {
  FakeGeneration fake(FourTokens);
  const auto result = Run(fake, {"--requests", "6", "--concurrency", "2", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["requests_ok"], 6);
  EXPECT_EQ(json["requests_failed"], 0);
  EXPECT_EQ(json["completion_tokens"], 24);
  EXPECT_EQ(json["rounds"], 12);
  EXPECT_EQ(json["drafted_tokens"], 12);
  EXPECT_EQ(json["accepted_tokens"], 8);
  EXPECT_DOUBLE_EQ(json["accepted_per_round"], 8.0 / 6);
  EXPECT_EQ(json["accepted_per_round_by_domain"],
            nlohmann::json({{"code", 2.0}, {"stories", 1.0}}));
  EXPECT_EQ(json["rounds_by_proposer"], nlohmann::json({{"draft", 6}, {"plain", 6}}));
  EXPECT_EQ(json["errors"], nlohmann::json::object());
  EXPECT_GT(json["seconds"], 0);
  EXPECT_NEAR(json["tokens_per_second"].get<double>() * json["seconds"].get<double>(), 24, 1e-6);
  for (const char* times : {"ttft_ms", "itl_ms"}) {
    EXPECT_GT(json[times]["p50"], 0) << times;
    EXPECT_LE(json[times]["p50"], json[times]["p95"]) << times;
    EXPECT_LE(json[times]["p95"], json[times]["p99"]) << times;
  }
}

TEST_F(Bench, CyclesThroughPromptsAndSeeds) {
  FakeGeneration fake(FourTokens);
  const auto result = Run(fake, {"--requests", "5", "--seed", "100", "--max-tokens", "9"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::map<uint64_t, v1::GenerateRequest> by_seed;
  for (const v1::GenerateRequest& request : fake.requests()) by_seed[request.seed()] = request;
  ASSERT_EQ(by_seed.size(), 5u);
  const char* prompts[] = {"one", "two", "three", "one", "two"};
  const uint32_t limits[] = {9, 3, 9, 9, 3};
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(by_seed.contains(100 + i));
    EXPECT_EQ(by_seed[100 + i].text(), prompts[i]);
    EXPECT_EQ(by_seed[100 + i].stop().max_tokens(), limits[i]);
  }
}

TEST_F(Bench, RunsEachPromptOnceByDefault) {
  FakeGeneration fake(FourTokens);
  EXPECT_EQ(Run(fake, {}).exit_code, 0);
  std::multiset<std::string> prompts;
  for (const v1::GenerateRequest& request : fake.requests()) prompts.insert(request.text());
  EXPECT_EQ(prompts, (std::multiset<std::string>{"one", "two", "three"}));
}

TEST_F(Bench, KeepsRequestedConcurrency) {
  // Every call waits for two others: fewer at a time would hang, and the test with them.
  std::barrier together(3);
  FakeGeneration fake([&](const v1::GenerateRequest& request, GenerateWriter* writer) {
    together.arrive_and_wait();
    return FourTokens(request, writer);
  });
  EXPECT_EQ(Run(fake, {"--requests", "6", "--concurrency", "3"}).exit_code, 0);
}

// Prompts of 12 families whose first pages differ, eight each.
void WriteFamilies(const std::string& path) {
  std::ofstream out(path);
  for (int i = 0; i < 96; ++i) {
    out << nlohmann::json(
               {{"prompt", std::string(100, static_cast<char>('a' + i % 12)) + std::to_string(i)}})
        << "\n";
  }
}

TEST_F(Bench, SendsPromptFamilyToOneVerifier) {
  WriteFamilies(path_);
  FakeGeneration one(FourTokens), two(FourTokens), three(FourTokens);
  const auto result =
      Run(one, {"--verifier", two.address(), "--verifier", three.address(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::map<char, std::set<const FakeGeneration*>> verifiers;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["verifiers"].size(), 3u);
  size_t index = 0;
  for (FakeGeneration* fake : {&one, &two, &three}) {
    for (const v1::GenerateRequest& request : fake->requests()) {
      verifiers[request.text()[0]].insert(fake);
    }
    EXPECT_EQ(json["verifiers"][index]["address"], fake->address());
    EXPECT_EQ(json["verifiers"][index]["requests"], fake->requests().size());
    EXPECT_LE(json["verifiers"][index]["most_in_flight"], 1);
    ++index;
  }
  EXPECT_EQ(verifiers.size(), 12u);
  for (const auto& [family, addresses] : verifiers) EXPECT_EQ(addresses.size(), 1u) << family;
  EXPECT_EQ(json["prompt_tokens"], 96);
  EXPECT_EQ(json["most_above_bound"], 0);
}

TEST_F(Bench, TakesTurnsIfAsked) {
  WriteFamilies(path_);
  FakeGeneration one(FourTokens), two(FourTokens);
  const auto result = Run(one, {"--verifier", two.address(), "--route", "round-robin"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(one.requests().size(), 48u);
  EXPECT_EQ(two.requests().size(), 48u);
  EXPECT_THAT(result.out, HasSubstr(" 48, 1\n"));
}

TEST_F(Bench, TriesAnotherVerifierIfUnavailable) {
  WriteFamilies(path_);
  FakeGeneration good(FourTokens);
  FakeGeneration draining([](const v1::GenerateRequest&, GenerateWriter*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  });
  const auto result = Run(good, {"--verifier", draining.address(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["requests_ok"], 96);
  EXPECT_EQ(good.requests().size(), 96u);
  EXPECT_GE(draining.requests().size(), 1u);
  const auto failed = Run(draining, {"--verifier", "127.0.0.1:1", "--requests", "1", "--json"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(failed.out)["errors"]["UNAVAILABLE"], 1);
}

TEST_F(Bench, FailedRequestsFailTheCommand) {
  std::atomic<int> calls = 0;
  FakeGeneration fake([&](const v1::GenerateRequest& request, GenerateWriter* writer) {
    switch (calls.fetch_add(1)) {
      case 1: return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room");
      case 2:
        writer->Write(Chunk("half", {1}));
        return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
      default: return FourTokens(request, writer);
    }
  });
  const auto result = Run(fake, {"--requests", "4", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "error: RESOURCE_EXHAUSTED: 2 of 4 requests failed, the first with: no room\n");
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["requests_ok"], 2);
  EXPECT_EQ(json["requests_failed"], 2);
  EXPECT_EQ(json["completion_tokens"], 8);
  EXPECT_EQ(json["errors"], nlohmann::json({{"INTERNAL", 1}, {"RESOURCE_EXHAUSTED", 1}}));
}

TEST_F(Bench, AllowedRefusalsDoNotFailCommand) {
  std::atomic<int> calls = 0;
  FakeGeneration fake([&](const v1::GenerateRequest& request, GenerateWriter* writer) {
    if (calls.fetch_add(1) % 2 == 0) {
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room");
    }
    return FourTokens(request, writer);
  });
  const auto result = Run(fake, {"--requests", "6", "--allow-refused", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["requests_ok"], 3);
  EXPECT_EQ(json["requests_refused"], 3);
  EXPECT_GT(json["refusal_ms"]["p50"], 0);
}

TEST_F(Bench, AllowedRefusalsExcuseNoOtherFailure) {
  std::atomic<int> calls = 0;
  FakeGeneration fake([&](const v1::GenerateRequest& request, GenerateWriter* writer) {
    switch (calls.fetch_add(1)) {
      case 0: return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room");
      case 1:  // not a refusal: it had begun
        writer->Write(Chunk("half", {1}));
        return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too slow");
      default: return FourTokens(request, writer);
    }
  });
  const auto result = Run(fake, {"--requests", "3", "--allow-refused"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "error: RESOURCE_EXHAUSTED: 1 of 3 requests failed, the first with: too slow (1 token "
            "was received)\n");
}

TEST_F(Bench, RateStartsRequestsOnTime) {
  // Every call waits for all five: a loop that waits for an end would hang.
  std::barrier together(5);
  FakeGeneration fake([&](const v1::GenerateRequest& request, GenerateWriter* writer) {
    together.arrive_and_wait();
    return FourTokens(request, writer);
  });
  const auto result =
      Run(fake, {"--requests", "5", "--concurrency", "5", "--rate", "40", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // Never early, so never faster than asked; a busy machine may be late.
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GT(json["started_per_second"], 0);
  EXPECT_LE(json["started_per_second"], 40);
}

// The fourth request is due after 30 ms and starts when three have taken 200 ms each.
TEST_F(Bench, ReportsHowLateRequestsStart) {
  FakeGeneration fake([](const v1::GenerateRequest& request, GenerateWriter* writer) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return FourTokens(request, writer);
  });
  const auto result =
      Run(fake, {"--requests", "4", "--concurrency", "1", "--rate", "100", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GT(json["start_delay_ms"]["p99"], 500);
  EXPECT_THAT(Run(fake, {"--requests", "1", "--json"}).out, Not(HasSubstr("start_delay_ms")));
}

TEST_F(Bench, DrawsProgressOnTerminalOnly) {
  FakeGeneration fake(FourTokens);
  const auto quiet = Run(fake, {});
  EXPECT_EQ(quiet.err, "");
  EXPECT_THAT(quiet.out, HasSubstr("tokens per second"));
  const auto drawn = Run(fake, {}, {.err_is_terminal = true});
  EXPECT_THAT(drawn.err, HasSubstr("\r3 of 3 requests, 0 failed"));
  EXPECT_THAT(drawn.err, ::testing::EndsWith("\n"));
}

TEST_F(Bench, ChecksPromptFileBeforeRequests) {
  FakeGeneration fake(FourTokens);
  std::ofstream(path_) << "{\"prompt\": 1}\n";
  const auto result = Run(fake, {});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("error: INVALID_ARGUMENT: " + path_ + ":1: "));
  EXPECT_TRUE(fake.requests().empty());
}

}  // namespace
}  // namespace outrider
