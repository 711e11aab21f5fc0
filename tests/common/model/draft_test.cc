// Drafts of several depths that a device samples in one go.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/common/model/draft_story.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

// With streams that run work as late as possible, passes that nobody waits for show memory that is
// overwritten too early.
TEST(Draft, SeveralDepthsInOneGo) {
  const CheckpointOptions llama = {.vocab_size = 80, .num_layers = 1};
  const CheckpointOptions gemma2 = {
      .family = Family::kGemma2, .vocab_size = 80, .num_layers = 2, .sliding_window = 6};
  ModelOptions options = kExactOptions;
  for (const WeightType weights : {WeightType::kF32, WeightType::kBf16}) {
    for (const bool graphs : {false, true}) {
      SCOPED_TRACE(graphs ? "with graphs" : "without graphs");
      const TempDirectory directory;
      const CheckpointOptions& checkpoint = weights == WeightType::kF32 ? llama : gemma2;
      ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
      options.weights = weights;
      const std::unique_ptr<Model> model =
          LoadModel(directory.path(), CreateEmulatedCudaBackend({.graphs = graphs}).value(),
                    options)
              .value();
      cuda_emulation::SetLate(true);
      testing::ExpectChainsOfTheHostsDraws(*model, 7);
      cuda_emulation::SetLate(false);
      EXPECT_EQ(model->free_pages(), model->total_pages());
      EXPECT_EQ(model->device()->graph_counts().launches > 30, graphs);
    }
  }
}

// The first pass, which processes the missing tokens, and all passes after it.
TEST(Draft, SeveralDepthsAreTwoGraphs) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {.vocab_size = 80, .num_layers = 1}).ok());
  const std::unique_ptr<Model> model =
      LoadModel(directory.path(), CreateEmulatedCudaBackend({}).value(), kExactOptions).value();
  const SequenceId sequence = model->NewSequence();
  const auto draft = [&](int depths) {
    const TokenId missing[] = {7};
    const DraftChain chains[] = {{sequence, missing}};
    PickBatch batch;
    batch.BeginSequence({});
    batch.AddChain({.pick = RowPick::kTop, .allowed = 80}, {}, {.depths = depths});
    std::span<const PickedRow> picked;
    ASSERT_TRUE(model->device()->DraftChains(chains, depths, batch, &picked).ok());
    model->Truncate(sequence, 0);
  };
  for (int i = 0; i < 3; ++i) {
    for (const int depths : {1, 4, 6}) draft(depths);
  }
  const GraphCounts before = model->device()->graph_counts();
  EXPECT_EQ(before.captures, 3) << "a pass, three depths more, five depths more";
  for (const int depths : {4, 6, 4}) draft(depths);
  EXPECT_EQ(model->device()->graph_counts().launches - before.launches, 6);
  draft(1);
  EXPECT_EQ(model->device()->graph_counts().launches - before.launches, 7) << "only a pass";
  EXPECT_EQ(model->device()->graph_counts().captures, 3);
}

// The graph of the chains refers to the picks' memory, those of passes do not.
TEST(Draft, GrowingPicksDropOnlyTheirGraph) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {.vocab_size = 80, .num_layers = 1}).ok());
  const std::unique_ptr<Model> model =
      LoadModel(directory.path(), CreateEmulatedCudaBackend({}).value(), kExactOptions).value();
  const SequenceId sequence = model->NewSequence();
  const auto draft = [&](size_t path_length) {
    const TokenId missing[] = {7};
    const DraftChain chains[] = {{sequence, missing}};
    PickBatch batch;
    batch.BeginSequence({});
    batch.AddChain({.pick = RowPick::kTop, .allowed = 80}, std::vector<TokenId>(path_length, 3),
                   {.depths = 4});
    std::span<const PickedRow> picked;
    EXPECT_TRUE(model->device()->DraftChains(chains, 4, batch, &picked).ok());
    model->Truncate(sequence, 0);
    std::vector<TokenId> tokens;
    for (const PickedRow& row : picked) tokens.push_back(row.sampled);
    return tokens;
  };
  const std::vector<TokenId> expected = draft(10);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(draft(10), expected);
  const GraphCounts before = model->device()->graph_counts();
  EXPECT_EQ(before.captures, 2) << "a pass, and three depths more";
  EXPECT_EQ(draft(500'000), expected);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(draft(10), expected);
  const GraphCounts after = model->device()->graph_counts();
  EXPECT_EQ(after.captures, 3) << "the three depths again";
  EXPECT_EQ(after.launches - before.launches, 5 + 2);
}

// What differs between drafts that use the same graph: the tokens seen, the bias, the length of the
// sequence and its pages, one of them a copy of another's; compared with new sequences.
TEST(Draft, GraphsReadTheirOwnDraftsArrays) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {.vocab_size = 200, .num_layers = 1}).ok());
  ModelOptions options = kExactOptions;
  options.page_tokens = 4;
  std::vector<std::vector<TokenId>> drawn[2];
  for (const bool graphs : {false, true}) {
    const std::unique_ptr<Model> model =
        LoadModel(directory.path(), CreateEmulatedCudaBackend({.graphs = graphs}).value(), options)
            .value();
    const std::vector<TokenId> said = RandomTokens(9, 200, 5);
    const SequenceId root = model->NewSequence();
    Extend(*model, root, said);
    SamplingParams params;
    params.presence_penalty = 2.f;
    params.repetition_penalty = 1.5f;
    for (int i = 0; i < 12; ++i) {
      const int length = 5 + i % 3;
      const SequenceId sequence = graphs ? model->Fork(root, 8).value() : model->NewSequence();
      if (graphs) model->Truncate(sequence, length);
      if (!graphs) Extend(*model, sequence, std::span(said).first(static_cast<size_t>(length)));
      const std::vector<TokenId> missing = {i % 5};
      const DraftChain chains[] = {{sequence, missing}};
      // Sizes mostly differ within the same capacity, and sometimes the capacities differ, too.
      std::vector<SeenToken> seen(static_cast<size_t>(56 + i % 4 * 20));
      for (TokenId token = i; SeenToken & entry : seen) entry = {token++, 1};
      const std::vector<TokenBias> biases = {{20 + i, 4.f}, {90 - i, -1.f}};
      std::vector<TokenId> path(static_cast<size_t>(40 + i % 5));
      for (TokenId token = i; TokenId & entry : path) entry = 17 * token++ % 200;
      PickBatch batch;
      batch.BeginSequence({.seen = seen, .biases = biases});
      batch.AddChain(
          {.pick = RowPick::kTop, .count = 50, .allowed = 200, .sampling = RowSamplingOf(params)},
          path, {.depths = 4});
      std::span<const PickedRow> picked;
      ASSERT_TRUE(model->device()->DraftChains(chains, 4, batch, &picked).ok());
      std::vector<TokenId>& tokens = drawn[graphs].emplace_back();
      for (const PickedRow& row : picked) {
        for (const RowEntry& entry : row.entries) tokens.push_back(entry.id);
      }
      model->Release(sequence);
    }
    EXPECT_EQ(model->device()->graph_counts().launches > 15, graphs);
  }
  EXPECT_EQ(drawn[0], drawn[1]);
}

class DraftChainErrors : public ::testing::Test {
 protected:
  DraftChainErrors() {
    ModelOptions options = kExactOptions;
    options.kv_pages = 4;
    options.page_tokens = 4;
    options.max_batch_tokens = 14;
    model_ = MakeModel({.vocab_size = 40, .num_layers = 1, .max_position_embeddings = 14}, options);
    sequence_ = model_->NewSequence();
  }

  // Chains of `tokens` tokens each, after the tokens of the sequences.
  Status Draft(const std::vector<SequenceId>& sequences, std::vector<TokenId> tokens, int depths) {
    PickBatch batch;
    std::vector<DraftChain> chains;
    for (const SequenceId sequence : sequences) {
      batch.BeginSequence({});
      batch.AddChain({.pick = RowPick::kTop, .allowed = 40}, {}, {.depths = depths});
      chains.push_back({sequence, tokens});
    }
    picked_ = {};
    return model_->device()->DraftChains(chains, depths, batch, &picked_);
  }
  void ExpectRefused(const std::vector<SequenceId>& sequences, std::vector<TokenId> tokens,
                     int depths, Code code) {
    const int pages = model_->free_pages(), length = model_->length(sequence_);
    EXPECT_EQ(Draft(sequences, std::move(tokens), depths).code(), code);
    EXPECT_TRUE(picked_.empty());
    EXPECT_EQ(model_->free_pages(), pages);
    EXPECT_EQ(model_->length(sequence_), length);
  }

  std::unique_ptr<Model> model_;
  SequenceId sequence_ = -1;
  std::span<const PickedRow> picked_;
};

TEST_F(DraftChainErrors, ChangeNothing) {
  ExpectRefused({sequence_}, {}, 2, Code::kInvalidArgument);
  ExpectRefused({sequence_}, {1, 40}, 2, Code::kInvalidArgument);
  ExpectRefused({sequence_, sequence_}, {1}, 2, Code::kInvalidArgument);
  ExpectRefused({sequence_, 99}, {1}, 2, Code::kInvalidArgument);
  ExpectRefused({sequence_}, std::vector<TokenId>(15, 1), 1, Code::kInvalidArgument);
  // The last sampled token is not run: 10 tokens and 5 draft tokens are 14 positions.
  ExpectRefused({sequence_}, std::vector<TokenId>(10, 1), 6, Code::kInvalidArgument);
  ASSERT_TRUE(Draft({sequence_}, std::vector<TokenId>(10, 1), 5).ok());
  EXPECT_EQ(picked_.size(), 5u);
  EXPECT_EQ(model_->length(sequence_), 14);
  EXPECT_TRUE(Draft({}, {}, 3).ok());
}

// Two sequences, whose pages are needed for all passes together.
TEST_F(DraftChainErrors, PagesAreCountedForAllDepths) {
  const SequenceId other = model_->NewSequence();
  ExpectRefused({sequence_, other}, {1, 2, 3}, 7, Code::kResourceExhausted);
  ASSERT_TRUE(Draft({sequence_, other}, {1, 2, 3}, 6).ok());
  EXPECT_EQ(model_->free_pages(), 0);
  EXPECT_EQ(model_->length(other), 8);
  EXPECT_EQ(picked_.size(), 12u);
  ExpectRefused({sequence_}, {1}, 1, Code::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
