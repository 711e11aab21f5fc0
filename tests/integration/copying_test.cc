// A text that repeats its prompt, through two processes: the controller finds the drafts that the
// text itself holds, with a drafter in competition, and the text stays plain decoding's.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/copying_checkpoint.h"
#include "tests/support/deepened_checkpoint.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::DefaultModel;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

std::vector<v1::GenerateRequest> GreedyEdits(size_t count) {
  std::vector<v1::GenerateRequest> requests;
  std::ifstream in(std::string(OUTRIDER_SOURCE_DIR) + "/tests/bench/edit_prompts.jsonl");
  for (std::string line; requests.size() < count && std::getline(in, line);) {
    const nlohmann::json edit = nlohmann::json::parse(line);
    v1::GenerateRequest request;
    request.set_text(edit.at("prompt"));
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stop()->set_max_tokens(edit.at("max_tokens"));
    requests.push_back(request);
  }
  return requests;
}

TEST(Copying, DraftsComeFromTheTextItself) {
  TempDir dir;
  ASSERT_TRUE(
      MakeCopyingCheckpoint(
          dir / "copying", DefaultModel("target"),
          {.renames = {{"line", "text"}, {"items", "values"}, {"index", "pos"}, {"size", "count"}}})
          .ok());
  // Deep enough that a step takes its time to read the weights, whatever its rows.
  ASSERT_TRUE(DeepenCheckpoint(dir / "copying", dir / "deep", 12).ok());
  const auto verifier = StartVerifier(dir / "deep", dir / "verifier.log",
                                      {"--policy", "adaptive", "--bf16-activations"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter =
      StartDrafter(DefaultModel("drafter"), verifier.address(), dir / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  const std::vector<v1::GenerateRequest> edits = GreedyEdits(7);
  constexpr size_t kLearning = 3;  // requests
  std::map<std::string, int> arms;
  int rounds = 0, tokens = 0;
  for (size_t i = 0; i < edits.size(); ++i) {
    const TestClient::Outcome drafted = client.Generate(edits[i]);
    v1::GenerateRequest request = edits[i];
    request.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
    const TestClient::Outcome plain = client.Generate(request);
    ASSERT_TRUE(drafted.status.ok() && plain.status.ok());
    EXPECT_EQ(drafted.tokens, plain.tokens) << edits[i].text();
    if (i < kLearning) continue;
    for (const v1::ArmRounds& arm : drafted.finished.speculation().arms()) {
      arms[arm.arm().substr(0, arm.arm().find('-'))] += static_cast<int>(arm.rounds());
      rounds += static_cast<int>(arm.rounds());
    }
    tokens += static_cast<int>(drafted.tokens.size());
  }
  const std::string shares = ::testing::PrintToString(arms);
  RecordProperty("rounds", shares);
  // In the others the text holds nothing; whether a drafter is worth its time there is the
  // machine's.
  EXPECT_GT(arms["lookup"] + arms["suffix"], rounds / 3) << shares;
  EXPECT_GT(tokens, 2 * rounds) << shares;
}

}  // namespace
}  // namespace outrider
