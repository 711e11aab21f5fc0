#include "common/model/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/support/fake_model.h"

namespace outrider {
namespace {

std::vector<int> Rows(const FakeModel& model) {
  std::vector<int> rows;
  for (const auto& batch : model.batches()) {
    EXPECT_EQ(batch.size(), 1u);
    rows.push_back(static_cast<int>(batch[0].tokens.size()));
    // The logits are computed, too, including the last ones.
    EXPECT_EQ(batch[0].logit_rows.back(), rows.back() - 1);
  }
  return rows;
}

TEST(WarmUpTest, RunsLargestBatchFirst) {
  FakeModel model({.max_batch_tokens = 100});
  ASSERT_TRUE(WarmUp(&model, 100).ok());
  EXPECT_THAT(Rows(model), ::testing::ElementsAre(100, 96, 80, 64, 48, 32, 16, 8, 4, 2, 1));
  EXPECT_EQ(model.batches()[0][0].logit_rows.size(), 100u) << "so does the output head";
  EXPECT_EQ(model.sequences(), 0);
  EXPECT_EQ(model.free_pages(), model.total_pages());
}

TEST(WarmUpTest, RunsPowersOfTwoAbove128) {
  FakeModel model({.total_pages = 200, .max_batch_tokens = 600, .max_position_embeddings = 1000});
  ASSERT_TRUE(WarmUp(&model, 600).ok());
  EXPECT_THAT(Rows(model),
              ::testing::ElementsAre(600, 512, 256, 128, 112, 96, 80, 64, 48, 32, 16, 8, 4, 2, 1));
}

// A backend pins the thread that computes, and the threads that it starts.
TEST(WarmUpTest, LeavesItsCallerAlone) {
  FakeModel model({.max_batch_tokens = 16});
  std::set<std::thread::id> threads;
  model.set_decide([&](const RoundBatch&, const LogitRows&) {
    threads.insert(std::this_thread::get_id());
    return Decisions();
  });
  ASSERT_TRUE(WarmUp(&model, 16).ok());
  ASSERT_TRUE(TimePasses(&model, 16, 1e9).ok());
  EXPECT_FALSE(threads.empty());
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0u);
}

TEST(WarmUpTest, CapturesGraphsLast) {
  FakeModel model({.max_batch_tokens = 16});
  model.set_decide([](const RoundBatch&, const LogitRows&) { return Decisions(); });  // a device
  ASSERT_TRUE(WarmUp(&model, 16).ok());
  EXPECT_EQ(model.passes_before_capture(), 5);
  EXPECT_EQ(Rows(model).size(), 5u);
}

TEST(WarmUpTest, RunsNoMoreRowsThanAsked) {
  FakeModel model({.max_batch_tokens = 100});
  ASSERT_TRUE(WarmUp(&model, 16).ok());
  EXPECT_THAT(Rows(model), ::testing::ElementsAre(16, 8, 4, 2, 1));
}

TEST(WarmUpTest, TimesPassesWithinItsBudget) {
  FakeModel model({.max_batch_tokens = 10});
  const auto times = TimePasses(&model, 16, 1e9);
  ASSERT_TRUE(times.ok());
  EXPECT_THAT(Rows(model), ::testing::ElementsAre(1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8));
  EXPECT_EQ(model.batches()[3][0].logit_rows.size(), 8u) << "a draft's rows are all scored";
  ASSERT_EQ(times->size(), 4u);
  for (size_t i = 0; i < times->size(); ++i) {
    EXPECT_EQ((*times)[i].rows, 1 << i);
    EXPECT_GT((*times)[i].seconds, 0);
  }
  EXPECT_EQ(model.sequences(), 0);
  EXPECT_TRUE(TimePasses(&model, 16, 0)->empty());
  model.FailNextForward(ResourceExhausted("memory"));
  EXPECT_EQ(TimePasses(&model, 16, 1).status().code(), Code::kResourceExhausted);
}

// Copies to the host would take its pinned memory, and time that rounds do not spend.
TEST(WarmUpTest, LogitsStayOnTheDevice) {
  FakeModel model({.max_batch_tokens = 16});
  int waits = 0;
  model.set_decide([&waits](const RoundBatch& batch, const LogitRows&) {
    EXPECT_TRUE(batch.empty());
    ++waits;
    return Decisions();
  });
  ASSERT_TRUE(WarmUp(&model, 16).ok());
  ASSERT_TRUE(TimePasses(&model, 16, 1e9).ok());
  EXPECT_EQ(model.bytes_to_host(), 0);
  for (const auto& batch : model.batches()) EXPECT_FALSE(batch[0].logits_to_host);
  EXPECT_EQ(static_cast<size_t>(waits), model.batches().size()) << "each pass is waited for";
}

// Equal rows would all choose the same experts of a mixture, and cost no more than one.
TEST(WarmUpTest, TimesRowsOfDifferentTokens) {
  FakeModel model({.max_batch_tokens = 16});
  ASSERT_TRUE(TimePasses(&model, 16, 1e9).ok());
  for (const auto& batch : model.batches()) {
    const std::set<TokenId> tokens(batch[0].tokens.begin(), batch[0].tokens.end());
    EXPECT_GE(2 * tokens.size(), batch[0].tokens.size());
    for (const TokenId token : tokens) EXPECT_LT(token, model.config().vocab_size);
  }
}

TEST(WarmUpTest, StaysWithinSequenceCapacity) {
  FakeModel pages({.page_tokens = 4, .total_pages = 2, .max_batch_tokens = 100});
  ASSERT_TRUE(WarmUp(&pages, 100).ok());
  EXPECT_THAT(Rows(pages), ::testing::ElementsAre(8, 4, 2, 1));

  FakeModel positions({.max_batch_tokens = 100, .max_position_embeddings = 5});
  ASSERT_TRUE(WarmUp(&positions, 100).ok());
  EXPECT_THAT(Rows(positions), ::testing::ElementsAre(5, 4, 2, 1));
}

TEST(WarmUpTest, ReportsAFailureAndHoldsNothing) {
  FakeModel model({.max_batch_tokens = 16});
  model.FailNextForward(ResourceExhausted("memory"));
  const Status status = WarmUp(&model, 16);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(model.sequences(), 0);
}

}  // namespace
}  // namespace outrider
