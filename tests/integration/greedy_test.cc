// Temperature 0 through two processes: the text equals plain greedy decoding token for token.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/checkpoint_maker.h"
#include "tests/support/gguf_conversion.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::SmallPair;
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

// The speculation of each prompt's request, compared with none.
struct Comparison {
  uint32_t accepted = 0;
  std::set<std::string> arms;
};

struct Models {
  std::string target = SmallPair("target");
  std::string drafter = SmallPair("drafter");
  std::string kv_cache = "auto";  // --kv-cache-dtype of both
  // Further flags of the verifier.
  std::vector<std::string> flags = {};
};

// At least `enough` draft tokens must be accepted.
template <class Speculate>
Comparison CompareWithPlain(const std::vector<std::string>& prompts, const std::string& policy,
                            uint32_t enough, const Speculate& speculate,
                            const Models& models = {}) {
  TempDir dir;
  std::vector<std::string> flags = {
      "--policy",         policy,          "--store-tokens",   "100000",
      "--kv-cache-dtype", models.kv_cache, "--min-draft-wait", "30"};
  flags.insert(flags.end(), models.flags.begin(), models.flags.end());
  const auto verifier = StartVerifier(models.target, dir / "verifier.log", flags);
  EXPECT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(models.drafter, verifier.address(), dir / "drafter.log",
                                    {"--kv-cache-dtype", models.kv_cache});
  TestClient client(verifier.address());
  EXPECT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  // Plain runs go one by one, drafted ones eight at a time: the rest of the batch must not matter
  // either.
  const auto run = [&](size_t i, bool plain) {
    v1::GenerateRequest request;
    request.set_text(prompts[i]);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stop()->set_max_tokens(kTokens);
    // Some end where the model ends them, the others are long whatever it writes.
    request.mutable_stop()->set_ignore_eos(i % 4 != 0);
    if (plain) {
      request.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
    } else {
      speculate(i, request.mutable_speculation());
    }
    return client.Generate(request);
  };
  std::vector<TestClient::Outcome> plain;
  for (size_t i = 0; i < prompts.size(); ++i) plain.push_back(run(i, true));
  Comparison comparison;
  std::vector<TestClient::Outcome> drafted(prompts.size());
  std::vector<std::thread> threads;
  constexpr size_t kAtOnce = 8;
  for (size_t t = 0; t < kAtOnce; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < prompts.size(); i += kAtOnce) drafted[i] = run(i, false);
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_TRUE(plain[i].status.ok() && drafted[i].status.ok()) << i;
    EXPECT_EQ(plain[i].tokens, drafted[i].tokens) << prompts[i];
    EXPECT_EQ(plain[i].text, drafted[i].text);
    const v1::SpeculationStats& stats = drafted[i].finished.speculation();
    comparison.accepted += stats.accepted_tokens();
    for (const v1::ArmRounds& arm : stats.arms()) comparison.arms.insert(arm.arm());
  }
  EXPECT_GE(comparison.accepted, enough) << "drafts were avoided, not scored";
  return comparison;
}

TEST(Greedy, HundredPromptsEqualPlainDecoding) {
  const std::vector<std::string> prompts = Prompts();
  ASSERT_EQ(prompts.size(), 100u);
  (void)CompareWithPlain(prompts, "fixed", /*enough=*/500,
                         [](size_t i, v1::SpeculationOptions* speculation) {
                           speculation->set_draft_length(i % 2 == 0 ? 4 : 8);
                         });
}

// Random plans: a drafter, the text itself and earlier texts in turn.
TEST(Greedy, MixedProposersEqualPlainDecoding) {
  std::vector<std::string> prompts = Prompts();
  prompts.resize(40);
  const Comparison comparison =
      CompareWithPlain(prompts, "exp3spec", /*enough=*/100, [](size_t, v1::SpeculationOptions*) {});
  EXPECT_GT(comparison.arms.size(), 15u);
  EXPECT_TRUE(comparison.arms.contains("suffix-4"));
  EXPECT_TRUE(comparison.arms.contains("lookup-4"));
  EXPECT_TRUE(comparison.arms.contains("draft-head-8")) << "the drafter has a head";
}

// Whether or not drafts pay on this machine: an unknown drafter is tried.
TEST(Greedy, ControllerChangesNoText) {
  std::vector<std::string> prompts = Prompts();
  prompts.resize(10);
  const Comparison comparison =
      CompareWithPlain(prompts, "adaptive", /*enough=*/0, [](size_t, v1::SpeculationOptions*) {});
  EXPECT_TRUE(comparison.arms.contains("draft-1x1"));
}

// The quantized model is the target: drafts do not change its text.
TEST(Greedy, QuantizedTargetsKeepTheirText) {
  std::vector<std::string> prompts = Prompts();
  prompts.resize(16);
  for (const StoredAs stored : {StoredAs::kAwq, StoredAs::kGptqOrder, StoredAs::kFp8Block}) {
    TempDir dir;
    CheckpointOptions options = {.vocab_size = 320, .tokenizer = true};
    ASSERT_TRUE(MakeCheckpoint(dir / "drafter", options).ok());
    options.stored_as = stored;
    ASSERT_TRUE(MakeCheckpoint(dir / "target", options).ok());
    SCOPED_TRACE(static_cast<int>(stored));
    (void)CompareWithPlain(
        prompts, "fixed", /*enough=*/100,
        [](size_t, v1::SpeculationOptions* speculation) { speculation->set_draft_length(6); },
        {.target = dir / "target", .drafter = dir / "drafter"});
  }
}

// The same for floats that are rounded at load, and for rounded activations.
TEST(Greedy, RoundedTargetsKeepTheirText) {
  std::vector<std::string> prompts = Prompts();
  prompts.resize(16);
  using Flags = std::vector<std::string>;
  for (const Flags& flags : {Flags{"--weights", "int8"}, Flags{"--weights", "int4"},
                             Flags{"--weights", "int4", "--int8-activations"}}) {
    SCOPED_TRACE(flags.back());
    (void)CompareWithPlain(
        prompts, "fixed", /*enough=*/100,
        [](size_t, v1::SpeculationOptions* speculation) { speculation->set_draft_length(6); },
        {.flags = flags});
  }
}

// Drafts see the rounded keys and values of their own pass as later passes do.
TEST(Greedy, Fp8CachesKeepTheirText) {
  std::vector<std::string> prompts = Prompts();
  prompts.resize(16);
  const auto speculate = [](size_t i, v1::SpeculationOptions* speculation) {
    speculation->set_draft_length(i % 2 == 0 ? 4 : 8);
  };
  (void)CompareWithPlain(prompts, "fixed", /*enough=*/100, speculate, {.kv_cache = "fp8"});
  TempDir dir;
  CheckpointOptions options = {.vocab_size = 320, .kv_scales = true, .tokenizer = true};
  ASSERT_TRUE(MakeCheckpoint(dir / "drafter", options).ok());
  options.stored_as = StoredAs::kFp8Tensor;
  ASSERT_TRUE(MakeCheckpoint(dir / "target", options).ok());
  (void)CompareWithPlain(prompts, "fixed", /*enough=*/100, speculate,
                         {.target = dir / "target", .drafter = dir / "drafter", .kv_cache = "fp8"});
}

// A GGUF target with a drafter in HF format: both have the same tokenizer.
TEST(Greedy, GgufTargetsKeepTheirText) {
  std::vector<std::string> prompts = Prompts();
  prompts.resize(16);
  const CheckpointOptions wide = {.vocab_size = 320,
                                  .hidden_size = 256,
                                  .intermediate_size = 256,
                                  .head_dim = 64,
                                  .tokenizer = true};
  const CheckpointOptions gpt_oss = {
      .family = Family::kGptOss, .vocab_size = 320, .tokenizer = true};
  struct Target {
    CheckpointOptions checkpoint;
    GgufOptions gguf;
  };
  for (const auto& [checkpoint, gguf] :
       {Target{wide, {.type = "Q8_0", .tokenizer = true}},
        Target{wide, {.type = "Q4_0", .tokenizer = true}},
        Target{wide, {.type = "Q4_K", .finer_type = "Q6_K", .tokenizer = true}},
        Target{gpt_oss, {.type = "F16", .tokenizer = true, .experts = "MXFP4"}}}) {
    TempDir dir;
    ASSERT_TRUE(MakeCheckpoint(dir / "drafter", checkpoint).ok());
    ASSERT_TRUE(MakeCheckpoint(dir / "target", checkpoint).ok());
    ASSERT_TRUE(WriteGguf(dir / "target", dir / "target.gguf", gguf).ok());
    (void)CompareWithPlain(
        prompts, "fixed", /*enough=*/100,
        [](size_t, v1::SpeculationOptions* speculation) { speculation->set_draft_length(6); },
        {.target = dir / "target.gguf", .drafter = dir / "drafter"});
  }
}

// The rows of a draft use experts that a single row does not, next to rows of other requests,
// without any effect on the text. The drafter is a mixture, too.
TEST(Greedy, MixturesOfExpertsKeepTheirText) {
  std::vector<std::string> prompts = Prompts();
  prompts.resize(12);
  for (CheckpointOptions options :
       {CheckpointOptions{.family = Family::kMixtral},
        CheckpointOptions{.family = Family::kQwen3Moe, .num_experts = 16, .experts_per_token = 4},
        CheckpointOptions{.family = Family::kGptOss, .stored_as = StoredAs::kMxfp4}}) {
    TempDir dir;
    options.vocab_size = 320;
    options.tokenizer = true;
    ASSERT_TRUE(MakeCheckpoint(dir / "target", options).ok());
    options.noise = 0.05;
    ASSERT_TRUE(MakeCheckpoint(dir / "drafter", options).ok());
    (void)CompareWithPlain(
        prompts, "fixed", /*enough=*/100,
        [](size_t, v1::SpeculationOptions* speculation) { speculation->set_draft_length(6); },
        {.target = dir / "target", .drafter = dir / "drafter"});
  }
}

}  // namespace
}  // namespace outrider
