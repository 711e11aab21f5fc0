// The seed-stable rule through real processes: under `gumbel` a seeded request always has the same
// text, whatever its drafts and whatever else runs.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

constexpr size_t kRequests = 50;
constexpr size_t kAnswerTokens = 40;

struct Setting {
  bool speculate = true;
  uint32_t paths = 1;
  uint32_t length = 2;
  size_t at_once = 1;
};

v1::GenerateRequest RequestOf(size_t i, const Setting& setting) {
  const char* const starts[] = {"Once upon a time", "def add(a, b):", "Tom has 5 apples.",
                                "The dog", "for i in range("};
  v1::GenerateRequest request;
  request.set_text(starts[i % std::size(starts)]);
  request.set_seed(7000 + i);
  request.mutable_sampling()->set_temperature(i % 2 == 0 ? 1.f : 0.8f);
  if (i % 3 == 0) request.mutable_sampling()->set_top_p(0.9f);
  if (i % 5 == 0) request.mutable_sampling()->set_presence_penalty(0.2f);
  request.mutable_stop()->set_max_tokens(kAnswerTokens);
  v1::SpeculationOptions* speculation = request.mutable_speculation();
  speculation->set_rule(v1::SpeculationOptions::RULE_GUMBEL);
  if (!setting.speculate) speculation->set_mode(v1::SpeculationOptions::MODE_OFF);
  speculation->set_paths(setting.paths);
  speculation->set_draft_length(setting.length);
  return request;
}

struct Texts {
  std::vector<std::string> texts;
  uint32_t accepted = 0;
};

Texts Generate(TestClient& client, const Setting& setting) {
  std::vector<TestClient::Outcome> outcomes(kRequests);
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < setting.at_once; ++t) {
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < kRequests;) {
        outcomes[i] = client.Generate(RequestOf(i, setting));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  Texts out;
  for (const TestClient::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    out.texts.push_back(outcome.text);
    out.accepted += outcome.finished.speculation().accepted_tokens();
  }
  return out;
}

TEST(Gumbel, TextDependsOnTargetPromptSeed) {
  TempDir dir;
  const auto verifier =
      StartVerifier(SmallPair("target"), dir / "verifier.log", {"--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  const Texts plain = Generate(client, {.speculate = false});
  EXPECT_EQ(Generate(client, {.speculate = false, .at_once = 16}).texts, plain.texts);

  // The small model's drafts are often wrong, those of the target's copy always right.
  for (const char* model : {"drafter", "target"}) {
    ASSERT_TRUE(client.AwaitDrafters(0));  // the previous one is gone
    const auto drafter =
        StartDrafter(SmallPair(model), verifier.address(), dir / (std::string(model) + ".log"));
    ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
    uint32_t accepted = 0;
    for (const uint32_t paths : {1u, 4u}) {
      for (const uint32_t length : {2u, 8u}) {
        for (const size_t at_once : {1u, 16u}) {
          SCOPED_TRACE(std::string(model) + ", paths " + std::to_string(paths) + ", length " +
                       std::to_string(length) + ", at once " + std::to_string(at_once));
          const Texts drafted =
              Generate(client, {.paths = paths, .length = length, .at_once = at_once});
          EXPECT_EQ(drafted.texts, plain.texts);
          accepted += drafted.accepted;
        }
      }
    }
    EXPECT_GT(accepted, kAnswerTokens) << model << ": drafts were avoided, not scored";
  }
}

}  // namespace
}  // namespace outrider
