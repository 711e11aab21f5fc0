// Rows that are read where they are, through the whole model.
#include <gtest/gtest.h>

#include <memory>

#include "tests/common/model/draft_story.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

TEST(Draft, ReadsTheRowsThatStayOnTheDevice) {
  ModelOptions options = kExactOptions;
  for (const WeightType weights : {WeightType::kF32, WeightType::kBf16}) {
    options.weights = weights;
    const std::unique_ptr<Model> model = MakeModel({.vocab_size = 80, .num_layers = 1}, options);
    ASSERT_NE(model, nullptr);
    testing::ExpectReadsOfTheHostsRows(*model);
  }
}

// With streams that do everything as late as they may, passes of which no one is waited for show
// memory that is written too early.
TEST(Draft, SeveralDepthsInOneGo) {
  ModelOptions options = kExactOptions;
  for (const WeightType weights : {WeightType::kF32, WeightType::kBf16}) {
    for (const bool graphs : {false, true}) {
      SCOPED_TRACE(graphs ? "with graphs" : "without graphs");
      const TempDirectory directory;
      ASSERT_TRUE(MakeCheckpoint(directory.path(), {.vocab_size = 80, .num_layers = 1}).ok());
      options.weights = weights;
      const std::unique_ptr<Model> model =
          LoadModel(directory.path(), CreateEmulatedCudaBackend({.graphs = graphs}).value(),
                    options)
              .value();
      cuda_emulation::SetLate(true);
      testing::ExpectChainsOfTheHostsDraws(*model, 7);
      cuda_emulation::SetLate(false);
      EXPECT_EQ(model->free_pages(), model->total_pages());
      // 25 passes behind prompts each way, of two kinds: those whose tokens are drawn on the device
      // have a graph of their own.
      EXPECT_EQ(model->graph_counts().launches > 30, graphs);
    }
  }
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

  // Chains of `tokens` tokens each behind what the sequences hold.
  Status Draft(const std::vector<SequenceId>& sequences, std::vector<TokenId> tokens, int depths) {
    DraftBatch batch;
    std::vector<DraftChain> chains;
    for (const SequenceId sequence : sequences) {
      batch.BeginSession({}, {});
      batch.AddChain({.pick = RowPick::kTop, .allowed = 40}, {}, {.depths = depths});
      chains.push_back({sequence, tokens});
    }
    picked_ = {};
    return model_->DraftChains(chains, depths, batch, &picked_);
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
  // The last token that is drawn is not fed: 10 tokens and 5 draws are 14 positions.
  ExpectRefused({sequence_}, std::vector<TokenId>(10, 1), 6, Code::kInvalidArgument);
  ASSERT_TRUE(Draft({sequence_}, std::vector<TokenId>(10, 1), 5).ok());
  EXPECT_EQ(picked_.size(), 5u);
  EXPECT_EQ(model_->length(sequence_), 14);
  EXPECT_TRUE(Draft({}, {}, 3).ok());
}

// Two sequences whose pages all passes together need.
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
