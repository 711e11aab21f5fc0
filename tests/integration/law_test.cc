// Exactness end to end: the output law of two real processes under sampling transforms equals the
// law of plain decoding, computed exactly by enumerating the target model here.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/backend/backend.h"
#include "common/model/transformer.h"
#include "common/spec/warper.h"
#include "tests/support/checkpoint_maker.h"
#include "tests/support/services.h"
#include "tests/support/statistics.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::TinyTokenizerJson;

constexpr int kVocab = 8;
constexpr int kPositions = 3;
constexpr int kGenerations = 200000;
const std::vector<TokenId> kPrompt = {2, 5, 3, 1};

SamplingParams Sampling() { return {.temperature = 0.8f, .top_p = 0.95f}; }

CheckpointOptions TinyModel() {
  return {.vocab_size = kVocab,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_layers = 2,
          .num_heads = 2,
          .num_kv_heads = 1,
          .head_dim = 16,
          .max_position_embeddings = 64,
          .eos_token_ids = {},
          .seed = 3};
}

// Pr(first kPositions tokens) under plain decoding, by enumeration.
class ExactLaw {
 public:
  explicit ExactLaw(const std::string& model_dir) {
    auto backend = CreateCpuBackend({});
    model_ = LoadModel(model_dir, std::move(backend).value(), {.kv_pages = 16}).value();
    Descend({}, 1.0);
  }
  const std::map<std::vector<TokenId>, double>& cells() const { return cells_; }

 private:
  void Descend(const std::vector<TokenId>& output, double probability) {
    if (output.size() == kPositions) {
      cells_[output] = probability;
      return;
    }
    std::vector<TokenId> tokens = kPrompt;
    tokens.insert(tokens.end(), output.begin(), output.end());
    const SequenceId sequence = model_->NewSequence();
    const std::vector<int32_t> rows = {static_cast<int32_t>(tokens.size()) - 1};
    const ForwardSequence share{.sequence = sequence, .tokens = tokens, .logit_rows = rows};
    ForwardOutput out;
    ASSERT_TRUE(model_->Forward({&share, 1}, false, &out).ok());
    std::vector<float> row(out.logits, out.logits + kVocab);
    model_->Release(sequence);
    Warper warper(Sampling(), kVocab, kVocab);
    warper.Warp(row, {});
    for (TokenId t = 0; t < kVocab; ++t) {
      if (row[static_cast<size_t>(t)] == 0) continue;
      std::vector<TokenId> longer = output;
      longer.push_back(t);
      Descend(longer, probability * static_cast<double>(row[static_cast<size_t>(t)]));
    }
  }

  std::unique_ptr<Model> model_;
  std::map<std::vector<TokenId>, double> cells_;
};

TEST(Law, FirstThreeTokensOfTwoProcessesFollowPlainDecodingsExactLaw) {
  TempDir dir;
  CheckpointOptions options = TinyModel();
  ASSERT_TRUE(MakeCheckpoint(dir / "target", options).ok());
  options.noise = 0.5;  // often right, often wrong
  options.noise_seed = 1;
  ASSERT_TRUE(MakeCheckpoint(dir / "drafter", options).ok());
  for (const char* name : {"target", "drafter"}) {
    std::ofstream(dir / (std::string(name) + "/tokenizer.json")) << TinyTokenizerJson(kVocab);
  }
  const ExactLaw law(dir / "target");

  const auto verifier = StartVerifier(dir / "target", dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(dir / "drafter", verifier.address(), dir / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  constexpr int kThreads = 16;
  std::vector<std::map<std::vector<TokenId>, int64_t>> counts(kThreads);
  std::atomic<int> next{0}, failed{0};
  std::atomic<int64_t> accepted{0}, rejected{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      v1::GenerateRequest request;
      for (const TokenId token : kPrompt) {
        request.mutable_token_ids()->add_ids(static_cast<uint32_t>(token));
      }
      request.mutable_sampling()->set_temperature(Sampling().temperature);
      request.mutable_sampling()->set_top_p(Sampling().top_p);
      request.mutable_stop()->set_max_tokens(5);
      request.mutable_speculation()->set_rule(v1::SpeculationOptions::RULE_BLOCK);
      request.mutable_speculation()->set_draft_length(4);
      for (int i; (i = next++) < kGenerations;) {
        request.set_seed(static_cast<uint64_t>(i));
        const TestClient::Outcome outcome = client.Generate(request);
        if (!outcome.status.ok() || outcome.tokens.size() != 5) {
          ++failed;
          continue;
        }
        const v1::SpeculationStats& stats = outcome.finished.speculation();
        accepted += stats.accepted_tokens();
        rejected += stats.drafted_tokens() - stats.accepted_tokens();
        ++counts[static_cast<size_t>(t)]
                [{outcome.tokens.begin(), outcome.tokens.begin() + kPositions}];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  ASSERT_EQ(failed, 0);
  // Both ways of the rule were taken, often.
  EXPECT_GT(accepted, kGenerations / 2);
  EXPECT_GT(rejected, kGenerations / 2);

  std::map<std::vector<TokenId>, int64_t> total;
  for (const auto& part : counts) {
    for (const auto& [cell, n] : part) total[cell] += n;
  }
  std::vector<int64_t> observed;
  std::vector<double> expected;
  int64_t outside = kGenerations;
  for (const auto& [cell, probability] : law.cells()) {
    observed.push_back(total[cell]);
    expected.push_back(probability);
    outside -= total[cell];
  }
  EXPECT_EQ(outside, 0) << "tokens that top-p cuts off came out";
  EXPECT_GT(testing::ChiSquarePValue(observed, expected), testing::kFalseAlarm);
}

}  // namespace
}  // namespace outrider
