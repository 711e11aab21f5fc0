// A token's logits do not depend on its batch: trees, ragged batches, chunks and every path to the
// same history give the same bits. So greedy decoding with drafts emits the tokens of plain
// decoding even if two logits nearly tie.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "common/model/safetensors.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::vector<CheckpointOptions> SomeModels() {
  return {{.family = Family::kQwen3, .num_layers = 3},
          {.family = Family::kMistral, .sliding_window = 11},
          {.family = Family::kGemma2, .sliding_window = 9},
          {.family = Family::kOlmo2, .config = R"({"partial_rotary_factor": 0.625})"},
          {.family = Family::kQwen3Moe, .num_experts = 12, .experts_per_token = 3},
          {.family = Family::kGptOss, .sliding_window = 9}};
}

std::vector<TokenId> Join(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  std::vector<TokenId> out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

// A tree in which every node has a random earlier parent.
std::vector<int32_t> RandomTree(int nodes, std::mt19937_64& random) {
  std::vector<int32_t> parents;
  for (int i = 0; i < nodes; ++i) {
    parents.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(i + 1)) - 1);
  }
  return parents;
}

// Indices from a root to `node`.
std::vector<int32_t> PathTo(int32_t node, const std::vector<int32_t>& parents) {
  std::vector<int32_t> path;
  for (; node >= 0; node = parents[static_cast<size_t>(node)]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<TokenId> Select(const std::vector<TokenId>& tokens, const std::vector<int32_t>& path) {
  std::vector<TokenId> out;
  for (const int32_t i : path) out.push_back(tokens[static_cast<size_t>(i)]);
  return out;
}

TEST(Forward, TreeNodesSeeExactlyTheirAncestors) {
  std::mt19937_64 random(1);
  for (const CheckpointOptions& checkpoint : SomeModels()) {
    const std::unique_ptr<Model> model = MakeModel(checkpoint);
    ASSERT_NE(model, nullptr);
    for (const int context : {0, 1, 16, 21}) {
      const int nodes = 24;
      const std::vector<TokenId> prefix = RandomTokens(context, checkpoint.vocab_size, random());
      const std::vector<TokenId> tokens = RandomTokens(nodes, checkpoint.vocab_size, random());
      const std::vector<int32_t> parents = RandomTree(nodes, random);
      const SequenceId sequence = model->NewSequence();
      if (context > 0) Extend(*model, sequence, prefix);
      const Rows tree = Extend(*model, sequence, tokens, parents);
      ASSERT_EQ(tree.size(), tokens.size());
      model->Release(sequence);
      for (int32_t node = 0; node < nodes; ++node) {
        const Rows alone = RunFresh(*model, Join(prefix, Select(tokens, PathTo(node, parents))));
        EXPECT_TRUE(BitEqual(tree[static_cast<size_t>(node)], alone.back()))
            << "context " << context << ", node " << node;
      }
    }
    EXPECT_EQ(model->free_pages(), model->total_pages());
  }
}

TEST(Forward, RaggedBatchesEqualSingleSequences) {
  for (const CheckpointOptions& checkpoint : SomeModels()) {
    const std::unique_ptr<Model> model = MakeModel(checkpoint);
    ASSERT_NE(model, nullptr);
    std::mt19937_64 random(2);
    std::vector<SequenceId> together;
    std::vector<SequenceId> alone;
    std::vector<std::vector<TokenId>> tokens;
    std::vector<std::vector<int32_t>> trees;
    for (int i = 0; i < 5; ++i) {
      const std::vector<TokenId> prefix = RandomTokens(1 + 9 * i, checkpoint.vocab_size, random());
      together.push_back(model->NewSequence());
      alone.push_back(model->NewSequence());
      Extend(*model, together.back(), prefix);
      Extend(*model, alone.back(), prefix);
      tokens.push_back(RandomTokens(1 + 4 * (i % 4), checkpoint.vocab_size, random()));
      trees.push_back(i % 2 == 0 ? std::vector<int32_t>()
                                 : RandomTree(static_cast<int>(tokens.back().size()), random));
    }
    const std::vector<int32_t> first = {0};
    std::vector<ForwardSequence> batch;
    for (size_t i = 0; i < tokens.size(); ++i) {
      batch.push_back({together[i], tokens[i], trees[i], first});
    }
    ForwardOutput output;
    ASSERT_TRUE(model->Forward(batch, /*want_hidden=*/true, &output).ok());
    ASSERT_EQ(output.rows, 5);
    const auto vocabulary = static_cast<size_t>(checkpoint.vocab_size);
    const auto hidden = static_cast<size_t>(checkpoint.hidden_size);
    const std::vector<float> logits(output.logits, output.logits + 5 * vocabulary);
    const std::vector<float> states(output.hidden, output.hidden + 5 * hidden);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const ForwardSequence share = {alone[i], tokens[i], trees[i], first};
      ASSERT_TRUE(model->Forward({&share, 1}, /*want_hidden=*/true, &output).ok());
      EXPECT_TRUE(std::equal(output.logits, output.logits + vocabulary,
                             logits.begin() + static_cast<ptrdiff_t>(i * vocabulary)));
      EXPECT_TRUE(std::equal(output.hidden, output.hidden + hidden,
                             states.begin() + static_cast<ptrdiff_t>(i * hidden)));
    }
  }
}

TEST(Forward, ChunkedPrefillEqualsWholePrefill) {
  for (const CheckpointOptions& checkpoint : SomeModels()) {
    const std::unique_ptr<Model> model = MakeModel(checkpoint);
    ASSERT_NE(model, nullptr);
    const std::vector<TokenId> tokens = RandomTokens(60, checkpoint.vocab_size, 3);
    const Rows whole = RunFresh(*model, tokens);
    const SequenceId sequence = model->NewSequence();
    size_t begin = 0;
    for (const size_t chunk : {1, 15, 1, 17, 2, 24}) {
      const Rows rows = Extend(*model, sequence, std::span(tokens).subspan(begin, chunk));
      for (size_t i = 0; i < chunk; ++i) {
        EXPECT_TRUE(BitEqual(rows[i], whole[begin + i])) << begin + i;
      }
      begin += chunk;
    }
    EXPECT_EQ(begin, tokens.size());
    EXPECT_EQ(model->length(sequence), 60);
  }
}

TEST(Forward, ReturnsOnlyWantedRows) {
  const CheckpointOptions checkpoint = {.family = Family::kLlama};
  const std::unique_ptr<Model> model = MakeModel(checkpoint);
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> tokens = RandomTokens(20, checkpoint.vocab_size, 4);
  const Rows all = RunFresh(*model, tokens);
  const std::vector<int32_t> wanted = {2, 3, 19};
  const SequenceId sequence = model->NewSequence();
  const ForwardSequence share = {sequence, tokens, {}, wanted};
  ForwardOutput output;
  ASSERT_TRUE(model->Forward({&share, 1}, /*want_hidden=*/false, &output).ok());
  ASSERT_EQ(output.rows, 3);
  EXPECT_EQ(output.hidden, nullptr);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto& expected = all[static_cast<size_t>(wanted[i])];
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), output.logits + i * expected.size()));
  }
}

TEST(Forward, FillsCacheWithoutWantedRows) {
  const CheckpointOptions checkpoint = {.family = Family::kLlama};
  const std::unique_ptr<Model> model = MakeModel(checkpoint);
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> tokens = RandomTokens(21, checkpoint.vocab_size, 4);
  const SequenceId sequence = model->NewSequence();
  const ForwardSequence share = {sequence, std::span(tokens).first(20), {}, {}};
  ForwardOutput output;
  ASSERT_TRUE(model->Forward({&share, 1}, /*want_hidden=*/true, &output).ok());
  EXPECT_EQ(output.rows, 0);
  EXPECT_EQ(output.logits, nullptr);
  const Rows last = Extend(*model, sequence, std::span(tokens).last(1));
  EXPECT_TRUE(BitEqual(last[0], RunFresh(*model, tokens).back()));
}

TEST(Forward, HiddenStatesAreInputOfHead) {
  const CheckpointOptions checkpoint = {.family = Family::kLlama, .tied_embeddings = false};
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
  const std::unique_ptr<Model> model = LoadTestModel(directory.path());
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> tokens = RandomTokens(5, checkpoint.vocab_size, 4);
  const std::vector<int32_t> wanted = {1, 4};
  const ForwardSequence share = {model->NewSequence(), tokens, {}, wanted};
  ForwardOutput output;
  ASSERT_TRUE(model->Forward({&share, 1}, /*want_hidden=*/true, &output).ok());
  const Result<Checkpoint> weights = Checkpoint::Open(directory.path());
  ASSERT_TRUE(weights.ok());
  const Result<TensorView> head = weights->Find("lm_head.weight");
  ASSERT_TRUE(head.ok());
  const auto hidden = static_cast<size_t>(checkpoint.hidden_size);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t id = 0; id < static_cast<size_t>(checkpoint.vocab_size); ++id) {
      double dot = 0;
      for (size_t i = 0; i < hidden; ++i) {
        dot += static_cast<double>(LoadElement(*head, id * hidden + i)) *
               output.hidden[row * hidden + i];
      }
      const size_t index = row * static_cast<size_t>(checkpoint.vocab_size) + id;
      ASSERT_NEAR(output.logits[index], dot, 1e-4);
    }
  }
}

TEST(Forward, KeptPathEqualsRunningItAlone) {
  std::mt19937_64 random(5);
  for (const CheckpointOptions& checkpoint : SomeModels()) {
    const std::unique_ptr<Model> model = MakeModel(checkpoint);
    ASSERT_NE(model, nullptr);
    for (int round = 0; round < 8; ++round) {
      const std::vector<TokenId> prefix = RandomTokens(14, checkpoint.vocab_size, random());
      const std::vector<TokenId> tokens = RandomTokens(12, checkpoint.vocab_size, random());
      const std::vector<TokenId> next = RandomTokens(3, checkpoint.vocab_size, random());
      const std::vector<int32_t> parents = RandomTree(12, random);
      const std::vector<int32_t> path = PathTo(static_cast<int32_t>(random() % 13) - 1, parents);
      const SequenceId sequence = model->NewSequence();
      Extend(*model, sequence, prefix);
      Extend(*model, sequence, tokens, parents);
      model->KeepPath(sequence, path);
      EXPECT_EQ(model->length(sequence), 14 + static_cast<int>(path.size()));
      const Rows kept = Extend(*model, sequence, next);
      const Rows fresh = RunFresh(*model, Join(Join(prefix, Select(tokens, path)), next));
      EXPECT_TRUE(BitEqual(kept.back(), fresh.back()));
      model->Release(sequence);
    }
  }
}

TEST(Forward, TruncatingAndForkingKeepHistories) {
  const CheckpointOptions checkpoint = {.family = Family::kLlama};
  const std::unique_ptr<Model> model = MakeModel(checkpoint);
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> tokens = RandomTokens(40, checkpoint.vocab_size, 6);
  const std::vector<TokenId> next = RandomTokens(9, checkpoint.vocab_size, 7);
  const SequenceId first = model->NewSequence();
  Extend(*model, first, tokens);
  const Result<SequenceId> second = model->Fork(first, 35);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(model->length(*second), 35);
  // Both now write to what was a shared page.
  model->Truncate(first, 20);
  model->Truncate(*second, 25);
  const Rows first_rows = Extend(*model, first, next);
  const Rows second_rows = Extend(*model, *second, next);
  const auto prefix = [&](int n) { return std::vector(tokens.begin(), tokens.begin() + n); };
  EXPECT_TRUE(BitEqual(first_rows.back(), RunFresh(*model, Join(prefix(20), next)).back()));
  EXPECT_TRUE(BitEqual(second_rows.back(), RunFresh(*model, Join(prefix(25), next)).back()));
  model->Release(first);
  model->Release(*second);
  EXPECT_EQ(model->free_pages(), model->total_pages());
}

// Everything that a service may do with sequences, in random order and with too few pages.
TEST(Forward, RandomHistoriesEqualRecomputation) {
  const CheckpointOptions checkpoint = {
      .family = Family::kLlama, .vocab_size = 64, .hidden_size = 32, .num_layers = 2};
  ModelOptions options = kExactOptions;
  options.kv_pages = 40;
  options.page_tokens = 4;
  const std::unique_ptr<Model> model = MakeModel(checkpoint, options);
  const std::unique_ptr<Model> oracle = MakeModel(checkpoint, kExactOptions);
  ASSERT_NE(model, nullptr);
  ASSERT_NE(oracle, nullptr);
  struct Sequence {
    SequenceId id;
    std::vector<TokenId> history;
  };
  std::mt19937_64 random(8);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<Sequence> sequences;
  int refused = 0;
  for (int step = 0; step < 400; ++step) {
    const size_t action = below(10);
    if (sequences.empty() || action == 0) {
      sequences.push_back({model->NewSequence(), {}});
      continue;
    }
    const size_t pick = below(sequences.size());
    Sequence& s = sequences[pick];
    if (action == 1) {
      model->Release(s.id);
      sequences.erase(sequences.begin() + static_cast<ptrdiff_t>(pick));
    } else if (action == 2) {
      s.history.resize(below(s.history.size() + 1));
      model->Truncate(s.id, static_cast<int>(s.history.size()));
    } else if (action == 3) {
      const size_t length = below(s.history.size() + 1);
      const Result<SequenceId> fork = model->Fork(s.id, static_cast<int>(length));
      refused += fork.ok() ? 0 : 1;
      const std::vector<TokenId> history(s.history.begin(),
                                         s.history.begin() + static_cast<ptrdiff_t>(length));
      if (fork.ok()) sequences.push_back({*fork, history});
    } else {
      const int nodes = 1 + static_cast<int>(below(9));
      const std::vector<TokenId> tokens = RandomTokens(nodes, checkpoint.vocab_size, random());
      const std::vector<int32_t> parents = RandomTree(nodes, random);
      const std::vector<int32_t> path = PathTo(static_cast<int32_t>(nodes - 1), parents);
      const std::vector<int32_t> last = {nodes - 1};
      const ForwardSequence share = {s.id, tokens, parents, last};
      ForwardOutput output;
      const Status status = model->Forward({&share, 1}, /*want_hidden=*/false, &output);
      if (!status.ok()) {
        ASSERT_EQ(status.code(), Code::kResourceExhausted) << status.ToString();
        ++refused;
        ASSERT_EQ(model->length(s.id), static_cast<int>(s.history.size()));
        continue;
      }
      if (below(4) == 0) {  // a fork of tokens that KeepPath is about to move
        const Result<SequenceId> fork = model->Fork(s.id, model->length(s.id));
        if (fork.ok()) model->Release(*fork);
      }
      model->KeepPath(s.id, path);
      s.history = Join(s.history, Select(tokens, path));
      const Rows expected = RunFresh(*oracle, s.history);
      ASSERT_TRUE(BitEqual(
          std::span<const float>(output.logits, static_cast<size_t>(checkpoint.vocab_size)),
          std::span<const float>(expected.back())))
          << "step " << step;
    }
  }
  EXPECT_GT(refused, 0);
  for (const Sequence& s : sequences) model->Release(s.id);
  EXPECT_EQ(model->free_pages(), model->total_pages());
}

class ForwardErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = MakeModel(
        checkpoint_,
        {.weights = WeightType::kF32, .kv_pages = 4, .page_tokens = 8, .max_batch_tokens = 64});
    ASSERT_NE(model_, nullptr);
    prefix_ = RandomTokens(12, checkpoint_.vocab_size, 9);
    sequence_ = model_->NewSequence();
    Extend(*model_, sequence_, prefix_);
    free_before_ = model_->free_pages();
  }

  // Runs the batch, which must fail, and then continues the sequence as if nothing had happened.
  void ExpectError(const std::vector<ForwardSequence>& batch, Code code, const char* message) {
    ForwardOutput output;
    const Status status = model_->Forward(batch, /*want_hidden=*/false, &output);
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(message));
    EXPECT_EQ(output.rows, 0);
    EXPECT_EQ(model_->length(sequence_), 12);
    EXPECT_EQ(model_->free_pages(), free_before_);
    const std::vector<TokenId> next = {1, 2, 3};
    const Rows rows = Extend(*model_, sequence_, next);
    const Rows expected = RunFresh(*model_, Join(prefix_, next));
    EXPECT_TRUE(BitEqual(rows.back(), expected.back()));
  }

  CheckpointOptions checkpoint_ = {.family = Family::kLlama, .max_position_embeddings = 20};
  std::unique_ptr<Model> model_;
  std::vector<TokenId> prefix_;
  SequenceId sequence_ = -1;
  int free_before_ = 0;
};

TEST_F(ForwardErrors, TokenOutsideOfTheVocabulary) {
  const std::vector<TokenId> tokens = {1, checkpoint_.vocab_size};
  ExpectError({{sequence_, tokens, {}, {}}}, Code::kInvalidArgument, "token 320");
}

TEST_F(ForwardErrors, BadTree) {
  const std::vector<TokenId> tokens = {1, 2};
  const std::vector<int32_t> parents = {-1, 1};
  ExpectError({{sequence_, tokens, parents, {}}}, Code::kInvalidArgument, "parent 1");
}

TEST_F(ForwardErrors, PositionsBeyondTheModel) {
  const std::vector<TokenId> tokens(9, 1);
  ExpectError({{sequence_, tokens, {}, {}}}, Code::kInvalidArgument, "position 20");
}

TEST_F(ForwardErrors, InvalidShareFailsWholeBatch) {
  const SequenceId other = model_->NewSequence();
  const std::vector<TokenId> good = {1};
  const std::vector<TokenId> bad = {-1};
  ExpectError({{sequence_, good, {}, {}}, {other, bad, {}, {}}}, Code::kInvalidArgument,
              "sequence 1: token -1");
  EXPECT_EQ(model_->length(other), 0);
}

TEST_F(ForwardErrors, UnknownSequence) {
  const std::vector<TokenId> tokens = {1};
  ExpectError({{sequence_ + 1, tokens, {}, {}}}, Code::kInvalidArgument, "does not exist");
}

TEST_F(ForwardErrors, NegativeSequence) {
  const std::vector<TokenId> tokens = {1};
  ExpectError({{-1, tokens, {}, {}}}, Code::kInvalidArgument, "does not exist");
}

TEST_F(ForwardErrors, SequenceTwice) {
  const std::vector<TokenId> tokens = {1};
  ExpectError({{sequence_, tokens, {}, {}}, {sequence_, tokens, {}, {}}}, Code::kInvalidArgument,
              "twice");
}

TEST_F(ForwardErrors, BatchTooLarge) {
  const std::vector<TokenId> tokens(65, 1);
  ExpectError({{sequence_, tokens, {}, {}}}, Code::kInvalidArgument, "more than 64");
}

TEST_F(ForwardErrors, PagesOut) {
  // Each sequence alone would fit.
  const SequenceId a = model_->NewSequence();
  const SequenceId b = model_->NewSequence();
  const std::vector<TokenId> tokens(9, 1);
  ExpectError({{a, tokens, {}, {}}, {b, tokens, {}, {}}}, Code::kResourceExhausted, "pages");
  EXPECT_EQ(model_->length(a), 0);
}

TEST_F(ForwardErrors, EmptyBatchIsNoError) {
  ForwardOutput output;
  EXPECT_TRUE(model_->Forward({}, /*want_hidden=*/false, &output).ok());
  EXPECT_EQ(output.rows, 0);
}

TEST_F(ForwardErrors, ReservedPagesAreKept) {
  const SequenceId other = model_->NewSequence();
  ASSERT_TRUE(model_->Reserve(other, 16).ok());
  EXPECT_EQ(model_->free_pages(), 0);
  EXPECT_EQ(model_->Reserve(other, 17).code(), Code::kResourceExhausted);
  const std::vector<TokenId> tokens(5, 1);
  ForwardOutput output;
  const ForwardSequence greedy = {sequence_, tokens, {}, {}};
  EXPECT_EQ(model_->Forward({&greedy, 1}, /*want_hidden=*/false, &output).code(),
            Code::kResourceExhausted);
  EXPECT_EQ(Extend(*model_, other, std::vector<TokenId>(16, 1)).size(), 16U);
  model_->Release(other);
  EXPECT_TRUE(model_->Forward({&greedy, 1}, /*want_hidden=*/false, &output).ok());
}

TEST_F(ForwardErrors, ReusesSequenceIdsAfterRelease) {
  const SequenceId a = model_->NewSequence();
  const SequenceId b = model_->NewSequence();
  EXPECT_NE(a, b);
  model_->Release(a);
  EXPECT_NE(model_->NewSequence(), b);
}

}  // namespace
}  // namespace outrider
