// Exactness end to end: the output distribution of two real processes, under every rule and all
// sampling parameters, equals that of plain decoding, computed exactly by enumerating the target
// model here. Texts that follow a grammar are enumerated by std::regex, which shares no code with
// ours.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <utility>
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
using testing::TokenizerJsonOf;

constexpr int kVocab = 8;
constexpr int kPositions = 3;
constexpr uint32_t kDistributionTokens = 5;
// Ends the texts of grammars. The tokens before it are letters.
constexpr TokenId kEnd = kVocab - 1;
constexpr size_t kMaxLetters = 5;
const std::vector<TokenId> kPrompt = {2, 5, 3, 1};

// One rule with one set of sampling parameters.
struct Case {
  Rule rule;
  SamplingParams sampling;
  uint32_t paths = 1;
  std::vector<uint32_t> tree = {};
  int generations = 8000;
};

std::vector<Case> Cases() {
  return {
      {.rule = Rule::kBlock,
       .sampling = {.temperature = 0.8f, .top_p = 0.95f},
       .generations = 40000},
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

// The allowed tokens differ between the positions of a text, and between the nodes of a draft. In
// kNarrow many letters have only one possible successor, so that the verifier drafts, too.
constexpr char kWide[] = "[a-c]{2,3}d?|e(f|g)";
constexpr char kNarrow[] = "(ab|b|ca|fg){1,2}d?";

SamplingParams Following(const char* regex, SamplingParams sampling = {}) {
  sampling.grammar = GrammarSource{.kind = GrammarSource::Kind::kRegex, .text = regex};
  return sampling;
}

std::vector<Case> GrammarCases() {
  std::vector<Case> cases = {
      {.rule = Rule::kToken, .sampling = Following(kWide, {.temperature = 1.2f})},
      {.rule = Rule::kToken, .sampling = Following(kNarrow)},
      {.rule = Rule::kBlock, .sampling = Following(kWide, {.top_p = 0.95f})},
      {.rule = Rule::kBlock, .sampling = Following(kNarrow, {.repetition_penalty = 1.2f})},
      {.rule = Rule::kMultiPathBlock, .sampling = Following(kWide), .paths = 2},
      {.rule = Rule::kMultiPathBlock,
       .sampling = Following(kNarrow, {.presence_penalty = 0.4f}),
       .tree = {3, 1, 2}},
      {.rule = Rule::kSpecTr, .sampling = Following(kWide, {.temperature = 0.9f}), .paths = 3},
      {.rule = Rule::kGumbel, .sampling = Following(kWide, {.top_k = 3}), .paths = 2},
  };
  for (Case& c : cases) c.generations = 8000;
  return cases;
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

using Tokens = std::vector<TokenId>;

// The texts of a regular expression, with at most kMaxLetters letters.
class Language {
 public:
  explicit Language(const std::string& regex) {
    const std::regex expression(regex);
    std::vector<std::string> texts = {""};
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string text = texts[i];
      if (std::regex_match(text, expression)) texts_.insert(text);
      for (TokenId t = 0; text.size() < kMaxLetters && t < kEnd; ++t) {
        texts.push_back(text + Letter(t));
      }
    }
  }

  // Whether a text can continue after `output` with `token`.
  bool Allows(const Tokens& output, TokenId token) const {
    std::string text;
    for (const TokenId t : output) text += Letter(t);
    if (token == kEnd) return texts_.contains(text);
    const std::string longer = text + Letter(token);
    const auto next = texts_.lower_bound(longer);
    return next != texts_.end() && next->starts_with(longer);
  }

 private:
  static char Letter(TokenId token) { return static_cast<char>('a' + token); }

  std::set<std::string> texts_;
};

// Pr(first kPositions tokens) under plain decoding, or Pr(text) if texts follow a grammar, by
// enumeration.
class ExactDistribution {
 public:
  ExactDistribution(Model* model, const SamplingParams& sampling)
      : model_(model), sampling_(sampling) {
    if (sampling.grammar.has_value()) language_.emplace(sampling.grammar->text);
    Descend({}, 1.0);
  }
  const std::map<Tokens, double>& cells() const { return cells_; }

 private:
  bool IsWhole(const Tokens& output) const {
    if (language_.has_value()) return !output.empty() && output.back() == kEnd;
    return output.size() == kPositions;
  }

  std::vector<float> Row(const Tokens& output) {
    Tokens tokens = kPrompt;
    tokens.insert(tokens.end(), output.begin(), output.end());
    const SequenceId sequence = model_->NewSequence();
    const std::vector<int32_t> rows = {static_cast<int32_t>(tokens.size()) - 1};
    const ForwardSequence share{.sequence = sequence, .tokens = tokens, .logit_rows = rows};
    ForwardOutput out;
    EXPECT_TRUE(model_->Forward({&share, 1}, false, &out).ok());
    std::vector<float> row(out.logits, out.logits + kVocab);
    model_->Release(sequence);
    return row;
  }

  void Descend(const Tokens& output, double probability) {
    if (IsWhole(output)) {
      cells_[output] = probability;
      return;
    }
    std::vector<float> row = Row(output);
    for (TokenId t = 0; t < kVocab && language_.has_value(); ++t) {
      if (language_->Allows(output, t)) continue;
      row[static_cast<size_t>(t)] = -std::numeric_limits<float>::infinity();
    }
    SequenceSampling sampling(sampling_, kVocab, kVocab);
    sampling.ObservePrompt(kPrompt);
    for (const TokenId token : output) sampling.ObserveOutput(token);
    MakeDistribution(sampling, row, {});
    for (TokenId t = 0; t < kVocab; ++t) {
      if (row[static_cast<size_t>(t)] == 0) continue;
      Tokens longer = output;
      longer.push_back(t);
      Descend(longer, probability * static_cast<double>(row[static_cast<size_t>(t)]));
    }
  }

  Model* model_;
  SamplingParams sampling_;
  std::optional<Language> language_;  // no value: any text
  std::map<Tokens, double> cells_;
};

v1::GenerateRequest RequestOf(const Case& c) {
  v1::GenerateRequest request;
  for (const TokenId token : kPrompt) {
    request.mutable_token_ids()->add_ids(static_cast<uint32_t>(token));
  }
  ToWire(c.sampling, request.mutable_sampling());
  request.mutable_stop()->set_max_tokens(c.sampling.grammar.has_value() ? kMaxLetters + 1
                                                                        : kDistributionTokens);
  v1::SpeculationOptions* speculation = request.mutable_speculation();
  speculation->set_rule(ToWire(c.rule));
  if (c.tree.empty()) {
    speculation->set_draft_length(4);
    speculation->set_paths(c.paths);
  }
  speculation->mutable_tree()->Assign(c.tree.begin(), c.tree.end());
  return request;
}

// A text's cell of ExactDistribution; no value: the generation failed.
std::optional<Tokens> CellOf(const Case& c, const TestClient::Outcome& outcome) {
  if (!outcome.status.ok()) return std::nullopt;
  Tokens cell(outcome.tokens.begin(), outcome.tokens.end());
  if (c.sampling.grammar.has_value()) return cell;
  if (cell.size() != kDistributionTokens) return std::nullopt;
  cell.resize(kPositions);
  return cell;
}

// The results of many concurrent clients.
struct Observed {
  std::map<Tokens, int64_t> cells;
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
        const std::optional<Tokens> cell = CellOf(c, outcome);
        if (!cell.has_value()) {
          ++part.failed;
          continue;
        }
        const v1::SpeculationStats& stats = outcome.finished.speculation();
        part.accepted += stats.accepted_tokens();
        part.rejected += stats.drafted_tokens() - stats.accepted_tokens();
        ++part.cells[*cell];
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

// A verifier and a drafter of a tiny model, which is loaded here, too.
class OutputDistribution : public ::testing::Test {
 protected:
  void Start(CheckpointOptions options, const std::string& draft_tokenizer,
             const std::string& devices = "cpu") {
    ASSERT_TRUE(MakeCheckpoint(dir_ / "target", options).ok());
    options.noise = 0.5;  // often right, often wrong
    options.noise_seed = 1;
    ASSERT_TRUE(MakeCheckpoint(dir_ / "drafter", options).ok());
    std::ofstream(dir_ / "target/tokenizer.json") << TinyTokenizerJson(kVocab);
    std::ofstream(dir_ / "drafter/tokenizer.json") << draft_tokenizer;
    model_ = LoadModel(dir_ / "target", CreateCpuBackend({}).value(), {.kv_pages = 16}).value();
    // Drafts are scored, however busy the machine is.
    verifier_ = StartVerifier(dir_ / "target", dir_ / "verifier.log",
                              {"--min-draft-wait", "30", "--devices", devices});
    ASSERT_NE(verifier_.port, 0);
    drafter_ = StartDrafter(dir_ / "drafter", verifier_.address(), dir_ / "drafter.log");
    client_ = std::make_unique<TestClient>(verifier_.address());
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter_->Log();
  }

  // Both outcomes of the rule must have occurred, `taken` times per generation. `false_alarm` is
  // the probability that this fails although nothing is wrong.
  void Start(const CheckpointOptions& options) { Start(options, TinyTokenizerJson(kVocab)); }
  void ExpectDistributionOfPlainDecoding(const Case& c, double taken, double false_alarm) {
    SCOPED_TRACE(RequestOf(c).ShortDebugString());
    const ExactDistribution distribution(model_.get(), c.sampling);
    Observed observed = Observe(*client_, c, first_seed_);
    first_seed_ += static_cast<uint64_t>(c.generations);
    EXPECT_EQ(observed.failed, 0);
    EXPECT_GT(static_cast<double>(observed.accepted), taken * c.generations);
    EXPECT_GT(static_cast<double>(observed.rejected), taken * c.generations);

    std::vector<int64_t> counts;
    std::vector<double> expected;
    int64_t outside = c.generations;
    for (const auto& [cell, probability] : distribution.cells()) {
      counts.push_back(observed.cells[cell]);
      expected.push_back(probability);
      outside -= counts.back();
    }
    EXPECT_EQ(outside, 0) << "tokens that a transform or a grammar cuts off came out";
    EXPECT_GT(testing::ChiSquarePValue(counts, expected), false_alarm);
  }

  TempDir dir_;
  std::unique_ptr<Model> model_;
  testing::VerifierProcess verifier_;
  std::unique_ptr<testing::Process> drafter_;
  std::unique_ptr<TestClient> client_;
  uint64_t first_seed_ = 0;
};

TEST_F(OutputDistribution, HoldsForEveryRule) {
  Start(TinyModel());
  for (const Case& c : Cases()) ExpectDistributionOfPlainDecoding(c, 0.5, testing::kFalseAlarm);
}

// The drafter assigns other ids to the letters, so to it they are another model's, and has no "h",
// so that a fifth of the target's output is never drafted.
TEST_F(OutputDistribution, HoldsForAnotherVocabulary) {
  Start(TinyModel(), TokenizerJsonOf({"c", "a", "b", "f", "X", "d", "g", "e"}));
  for (Case c : Cases()) {
    c.generations = 5000;
    ExpectDistributionOfPlainDecoding(c, 0.1, testing::kFalseAlarm);
  }
  for (Case c : GrammarCases()) {
    if (c.sampling.grammar->text != kWide) continue;
    c.sampling.grammar = {};
    c.sampling.allowed_tokens = {0, 2, 3, 7};
    ExpectDistributionOfPlainDecoding(c, 0.1, testing::kFalseAlarm);
  }
}

// The target is divided between two processes. kFalseAlarm is that of all cases together.
TEST_F(OutputDistribution, HoldsOnTwoDevices) {
  Start(TinyModel(), TinyTokenizerJson(kVocab), "cpu,cpu");
  const std::vector<Case> cases = {
      {.rule = Rule::kBlock, .sampling = {.temperature = 0.8f, .top_p = 0.95f}},
      {.rule = Rule::kMultiPathBlock, .sampling = {.temperature = 1.2f}, .paths = 2}};
  for (const Case& c : cases) {
    ExpectDistributionOfPlainDecoding(c, 0.5,
                                      testing::kFalseAlarm / static_cast<double>(cases.size()));
  }
}

// Both processes apply the grammar's masks, with one mask per node of a draft. kFalseAlarm is that
// of all cases together.
TEST_F(OutputDistribution, HoldsForGrammars) {
  CheckpointOptions options = TinyModel();
  options.eos_token_ids = {kEnd};
  Start(options);
  const std::vector<Case> cases = GrammarCases();
  for (const Case& c : cases) {
    ExpectDistributionOfPlainDecoding(c, 0.1,
                                      testing::kFalseAlarm / static_cast<double>(cases.size()));
  }
}

}  // namespace
}  // namespace outrider
