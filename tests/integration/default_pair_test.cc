// The purpose of models/default, through two processes. Everything else is tested with a smaller
// pair (SmallPair).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::SourcePath;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

constexpr uint32_t kDrafted = 4;  // tokens per round

struct Prompt {
  std::string domain;
  v1::GenerateRequest request;
};

// Held out from training, `count` from each domain.
std::vector<Prompt> Prompts(int count) {
  std::vector<Prompt> prompts;
  std::map<std::string, int> taken;
  std::ifstream in(SourcePath("models/default/prompts.jsonl"));
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    Prompt prompt{.domain = json.at("domain")};
    if (taken[prompt.domain]++ >= count) continue;
    prompt.request.set_text(json.at("prompt"));
    prompt.request.mutable_stop()->set_max_tokens(64);
    prompt.request.set_seed(1);
    prompt.request.mutable_speculation()->set_rule(v1::SpeculationOptions::RULE_BLOCK);
    prompt.request.mutable_speculation()->set_draft_length(kDrafted);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

// The drafter was distilled from the target: of what it drafts, more than half is accepted in every
// domain but edits, which are hardest for it (two of five), and in all.
TEST(DefaultPair, AcceptsDraftsInEveryDomain) {
  TempDir dir;
  // The adaptive policy would draft only if that is faster on this machine.
  const auto verifier = StartVerifier(SourcePath("models/default/target"), dir / "verifier.log",
                                      {"--policy", "fixed", "--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter =
      StartDrafter(SourcePath("models/default/drafter"), verifier.address(), dir / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  struct Counts {
    uint32_t drafted = 0, accepted = 0;
  };
  std::map<std::string, Counts> domains;
  for (Prompt& prompt : Prompts(10)) {
    for (const float temperature : {0.0f, 0.8f}) {
      prompt.request.mutable_sampling()->set_temperature(temperature);
      const TestClient::Outcome drafted = client.Generate(prompt.request);
      ASSERT_TRUE(drafted.status.ok()) << drafted.status.error_message();
      const v1::SpeculationStats& stats = drafted.finished.speculation();
      domains[prompt.domain].drafted += stats.drafted_tokens();
      domains[prompt.domain].accepted += stats.accepted_tokens();
      if (temperature > 0) continue;
      v1::GenerateRequest plainly = prompt.request;
      plainly.mutable_speculation()->Clear();
      plainly.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
      const TestClient::Outcome plain = client.Generate(plainly);
      ASSERT_TRUE(plain.status.ok()) << plain.status.error_message();
      EXPECT_EQ(drafted.tokens, plain.tokens) << prompt.request.text();
    }
  }
  EXPECT_EQ(domains.size(), 5u);
  Counts all;
  for (const auto& [domain, counts] : domains) {
    EXPECT_GT(counts.drafted, 200u) << domain;
    EXPECT_GT((domain == "edits" ? 3 : 2) * counts.accepted, counts.drafted) << domain;
    all.drafted += counts.drafted;
    all.accepted += counts.accepted;
  }
  EXPECT_GT(2 * all.accepted, all.drafted);
}

}  // namespace
}  // namespace outrider
