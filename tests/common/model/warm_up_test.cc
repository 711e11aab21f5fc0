#include "common/model/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/fake_model.h"

namespace outrider {
namespace {

std::vector<int> Rows(const FakeModel& model) {
  std::vector<int> rows;
  for (const auto& batch : model.batches()) {
    EXPECT_EQ(batch.size(), 1u);
    rows.push_back(static_cast<int>(batch[0].tokens.size()));
    // The logits are computed, too.
    EXPECT_THAT(batch[0].logit_rows, testing::ElementsAre(rows.back() - 1));
  }
  return rows;
}

TEST(WarmUpTest, RunsTheLargestBatchThenSmallerOnes) {
  FakeModel model({.max_batch_tokens = 100});
  ASSERT_TRUE(WarmUp(&model).ok());
  EXPECT_THAT(Rows(model), testing::ElementsAre(100, 64, 32, 16, 8, 4, 2, 1));
  EXPECT_EQ(model.sequences(), 0);
  EXPECT_EQ(model.free_pages(), model.total_pages());
}

TEST(WarmUpTest, KeepsToWhatASequenceCanHold) {
  FakeModel pages({.page_tokens = 4, .total_pages = 2, .max_batch_tokens = 100});
  ASSERT_TRUE(WarmUp(&pages).ok());
  EXPECT_THAT(Rows(pages), testing::ElementsAre(8, 4, 2, 1));

  FakeModel positions({.max_batch_tokens = 100, .max_position_embeddings = 5});
  ASSERT_TRUE(WarmUp(&positions).ok());
  EXPECT_THAT(Rows(positions), testing::ElementsAre(5, 4, 2, 1));
}

TEST(WarmUpTest, ReportsAFailureAndHoldsNothing) {
  FakeModel model({.max_batch_tokens = 16});
  model.FailNextForward(ResourceExhausted("memory"));
  const Status status = WarmUp(&model);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(model.sequences(), 0);
}

}  // namespace
}  // namespace outrider
