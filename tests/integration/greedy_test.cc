// Temperature 0 through two processes: the text equals plain greedy decoding token for token.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::DefaultModel;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

constexpr uint32_t kTokens = 64;

std::vector<std::string> Prompts() {
  std::vector<std::string> prompts;
  std::ifstream in(std::string(OUTRIDER_SOURCE_DIR) + "/tests/bench/prompts.jsonl");
  for (std::string line; std::getline(in, line);) {
    prompts.push_back(nlohmann::json::parse(line).at("prompt"));
  }
  return prompts;
}

TEST(Greedy, HundredPromptsEqualPlainDecodingTokenForToken) {
  const std::vector<std::string> prompts = Prompts();
  ASSERT_EQ(prompts.size(), 100u);
  TempDir dir;
  const auto verifier = StartVerifier(DefaultModel("target"), dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto drafter =
      StartDrafter(DefaultModel("drafter"), verifier.address(), dir / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  // Plain runs one by one, drafted ones eight at a time: batch mates must not show either.
  const auto run = [&](size_t i, bool speculate) {
    v1::GenerateRequest request;
    request.set_text(prompts[i]);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stop()->set_max_tokens(kTokens);
    request.mutable_speculation()->set_draft_length(i % 2 == 0 ? 4 : 8);
    if (!speculate) request.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
    return client.Generate(request);
  };
  std::vector<TestClient::Outcome> plain;
  for (size_t i = 0; i < prompts.size(); ++i) plain.push_back(run(i, false));
  std::vector<TestClient::Outcome> drafted(prompts.size());
  std::vector<std::thread> threads;
  constexpr size_t kAtOnce = 8;
  for (size_t t = 0; t < kAtOnce; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < prompts.size(); i += kAtOnce) drafted[i] = run(i, true);
    });
  }
  for (std::thread& t : threads) t.join();

  uint32_t accepted = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    ASSERT_TRUE(plain[i].status.ok() && drafted[i].status.ok()) << i;
    EXPECT_EQ(plain[i].tokens, drafted[i].tokens) << prompts[i];
    EXPECT_EQ(plain[i].text, drafted[i].text);
    accepted += drafted[i].finished.speculation().accepted_tokens();
  }
  EXPECT_GT(accepted, 500u) << "drafts were scored, not avoided";
}

}  // namespace
}  // namespace outrider
