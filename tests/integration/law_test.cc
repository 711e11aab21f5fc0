// Exactness end to end: the output law of two real processes, under every rule and every sampling
// transform, equals the law of plain decoding, computed exactly by enumerating the target model
// here.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/model/transformer.h"
#include "common/rpc/values_wire.h"
#include "common/spec/sequence_sampling.h"
#include "tests/support/checkpoint_maker.h"
#include "tests/support/sequence_rows.h"
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
constexpr uint32_t kLawTokens = 5;
const std::vector<TokenId> kPrompt = {2, 5, 3, 1};

// One rule under one set of transforms.
struct Case {
  Rule rule;
  SamplingParams sampling;
  uint32_t paths = 1;
  std::vector<uint32_t> tree = {};
  int generations = 16000;
};

std::vector<Case> Cases() {
  return {
      {.rule = Rule::kBlock,
       .sampling = {.temperature = 0.8f, .top_p = 0.95f},
       .generations = 80000},
      {.rule = Rule::kToken, .sampling = {.temperature = 1.2f, .top_k = 5}},
      {.rule = Rule::kBlock, .sampling = {.repetition_penalty = 1.2f, .presence_penalty = 0.5f}},
      {.rule = Rule::kSpecTr, .sampling = {.temperature = 1.3f}, .paths = 3},
      {.rule = Rule::kSpecTr,
       .sampling = {.top_p = 0.9f, .frequency_penalty = 0.4f},
       .tree = {2, 2, 1}},
      {.rule = Rule::kMultiRound, .sampling = {.min_p = 0.1f}, .paths = 2},
      {.rule = Rule::kMultiRound, .sampling = {.logit_bias = {{3, 1.5f}, {6, -2.f}}}, .paths = 4},
      {.rule = Rule::kMultiPathBlock, .sampling = {}, .paths = 2},
      {.rule = Rule::kMultiPathBlock,
       .sampling =
           {.temperature = 0.9f, .top_k = 6, .repetition_penalty = 1.1f, .presence_penalty = 0.3f},
       .paths = 4},
      {.rule = Rule::kMultiPathBlock,
       .sampling = {.min_p = 0.05f, .logit_bias = {{1, 1.f}}},
       .tree = {3, 1, 2}},
      {.rule = Rule::kGumbel, .sampling = {.temperature = 1.1f, .top_p = 0.95f}, .paths = 2},
      {.rule = Rule::kGumbel, .sampling = {.frequency_penalty = 0.5f}, .tree = {2, 2}},
  };
}

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
  ExactLaw(Model* model, const SamplingParams& sampling) : model_(model), sampling_(sampling) {
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
    SequenceSampling sampling(sampling_, kVocab, kVocab);
    sampling.ObservePrompt(kPrompt);
    for (const TokenId token : output) sampling.ObserveOutput(token);
    MakeDistribution(sampling, row, {});
    for (TokenId t = 0; t < kVocab; ++t) {
      if (row[static_cast<size_t>(t)] == 0) continue;
      std::vector<TokenId> longer = output;
      longer.push_back(t);
      Descend(longer, probability * static_cast<double>(row[static_cast<size_t>(t)]));
    }
  }

  Model* model_;
  SamplingParams sampling_;
  std::map<std::vector<TokenId>, double> cells_;
};

v1::GenerateRequest RequestOf(const Case& c) {
  v1::GenerateRequest request;
  for (const TokenId token : kPrompt) {
    request.mutable_token_ids()->add_ids(static_cast<uint32_t>(token));
  }
  ToWire(c.sampling, request.mutable_sampling());
  request.mutable_stop()->set_max_tokens(kLawTokens);
  v1::SpeculationOptions* speculation = request.mutable_speculation();
  speculation->set_rule(ToWire(c.rule));
  if (c.tree.empty()) {
    speculation->set_draft_length(4);
    speculation->set_paths(c.paths);
  }
  speculation->mutable_tree()->Assign(c.tree.begin(), c.tree.end());
  return request;
}

// What many clients at once got.
struct Observed {
  std::map<std::vector<TokenId>, int64_t> cells;
  int failed = 0;
  int64_t accepted = 0, rejected = 0;
};

Observed Observe(TestClient& client, const Case& c, uint64_t first_seed) {
  constexpr int kThreads = 16;
  std::vector<Observed> parts(kThreads);
  std::atomic<int> next{0};
  std::vector<std::thread> threads;
  for (Observed& part : parts) {
    threads.emplace_back([&] {
      v1::GenerateRequest request = RequestOf(c);
      for (int i; (i = next++) < c.generations;) {
        request.set_seed(first_seed + static_cast<uint64_t>(i));
        const TestClient::Outcome outcome = client.Generate(request);
        if (!outcome.status.ok() || outcome.tokens.size() != kLawTokens) {
          ++part.failed;
          continue;
        }
        const v1::SpeculationStats& stats = outcome.finished.speculation();
        part.accepted += stats.accepted_tokens();
        part.rejected += stats.drafted_tokens() - stats.accepted_tokens();
        ++part.cells[{outcome.tokens.begin(), outcome.tokens.begin() + kPositions}];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  Observed all;
  for (const Observed& part : parts) {
    all.failed += part.failed;
    all.accepted += part.accepted;
    all.rejected += part.rejected;
    for (const auto& [cell, n] : part.cells) all.cells[cell] += n;
  }
  return all;
}

TEST(Law, OfEveryRuleThroughTwoProcessesIsPlainDecodings) {
  TempDir dir;
  CheckpointOptions options = TinyModel();
  ASSERT_TRUE(MakeCheckpoint(dir / "target", options).ok());
  options.noise = 0.5;  // often right, often wrong
  options.noise_seed = 1;
  ASSERT_TRUE(MakeCheckpoint(dir / "drafter", options).ok());
  for (const char* name : {"target", "drafter"}) {
    std::ofstream(dir / (std::string(name) + "/tokenizer.json")) << TinyTokenizerJson(kVocab);
  }
  const std::unique_ptr<Model> model =
      LoadModel(dir / "target", CreateCpuBackend({}).value(), {.kv_pages = 16}).value();

  const auto verifier = StartVerifier(dir / "target", dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(dir / "drafter", verifier.address(), dir / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  uint64_t first_seed = 0;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(RequestOf(c).ShortDebugString());
    const ExactLaw law(model.get(), c.sampling);
    Observed observed = Observe(client, c, first_seed);
    first_seed += static_cast<uint64_t>(c.generations);
    EXPECT_EQ(observed.failed, 0);
    // Both ways of the rule were taken, often.
    EXPECT_GT(observed.accepted, c.generations / 2);
    EXPECT_GT(observed.rejected, c.generations / 2);

    std::vector<int64_t> counts;
    std::vector<double> expected;
    int64_t outside = c.generations;
    for (const auto& [cell, probability] : law.cells()) {
      counts.push_back(observed.cells[cell]);
      expected.push_back(probability);
      outside -= counts.back();
    }
    EXPECT_EQ(outside, 0) << "tokens that a transform cuts off came out";
    EXPECT_GT(testing::ChiSquarePValue(counts, expected), testing::kFalseAlarm);
  }
}

}  // namespace
}  // namespace outrider
