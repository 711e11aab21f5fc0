// A text that repeats its prompt, through two processes: drafts found in the text are made before a
// drafter is asked, and the text equals plain decoding's. Which drafts the controller finds
// worthwhile depends on the machine; planned_engine_test.cc tests that with its own clock.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/copying_checkpoint.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::SmallPair;
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
          dir / "copying", SmallPair("target"),
          {.renames = {{"line", "msg"}, {"items", "values"}, {"key", "pos"}, {"number", "count"}}})
          .ok());
  const auto verifier =
      StartVerifier(dir / "copying", dir / "verifier.log",
                    {"--policy", "fixed:suffix-strong-8,lookup-strong-8,lookup-8,draft-1x2"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(SmallPair("drafter"), verifier.address(), dir / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  std::map<std::string, int> arms;  // rounds, by proposer
  int rounds = 0, tokens = 0;
  for (v1::GenerateRequest& request : GreedyEdits(7)) {
    const TestClient::Outcome drafted = client.Generate(request);
    request.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
    const TestClient::Outcome plain = client.Generate(request);
    ASSERT_TRUE(drafted.status.ok() && plain.status.ok());
    EXPECT_EQ(drafted.tokens, plain.tokens) << request.text();
    for (const v1::ArmRounds& arm : drafted.finished.speculation().arms()) {
      arms[arm.arm().substr(0, arm.arm().find('-'))] += static_cast<int>(arm.rounds());
      rounds += static_cast<int>(arm.rounds());
    }
    tokens += static_cast<int>(drafted.tokens.size());
  }
  const std::string shares = ::testing::PrintToString(arms);
  EXPECT_GT(arms["suffix"], 0) << shares;
  EXPECT_GT(arms["lookup"], 0) << shares;
  EXPECT_GT(arms["draft"], 0) << shares;
  EXPECT_GT(tokens, 2 * rounds) << shares;
}

}  // namespace
}  // namespace outrider
