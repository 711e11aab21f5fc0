#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "common/ranks/channel.h"
#include "common/ranks/pass_message.h"
#include "common/ranks/rank_processes.h"
#include "common/ranks/start_messages.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(RankMessages, PassSurvives) {
  const std::vector<int32_t> tokens = {5, 6, 7}, positions = {4, 0, 1}, slots = {20, 32, 33},
                             row_begin = {0, 1, 3}, context = {4, 0}, page_begin = {0, 1, 3},
                             pages = {1, 2, 9}, parents = {-1, -1, 0}, logit_rows = {0, 2};
  BatchLayout batch;
  batch.rows = 3;
  batch.sequences = 2;
  batch.tokens = tokens.data();
  batch.positions = positions.data();
  batch.slots = slots.data();
  batch.row_begin = row_begin.data();
  batch.context = context.data();
  batch.page_begin = page_begin.data();
  batch.pages = pages.data();
  batch.logit_rows = logit_rows.data();
  batch.logit_row_count = 2;
  for (const bool is_tree : {false, true}) {
    batch.parents = is_tree ? parents.data() : nullptr;
    std::vector<int32_t> message;
    EncodePass(RankOrder::kCapture, batch, &message);
    EXPECT_EQ(OrderOf(message), RankOrder::kCapture);
    const BatchLayout read = DecodePass(message);
    EXPECT_EQ(read.rows, 3);
    EXPECT_EQ(read.sequences, 2);
    EXPECT_THAT(std::span(read.tokens, 3), ElementsAreArray(tokens));
    EXPECT_THAT(std::span(read.positions, 3), ElementsAreArray(positions));
    EXPECT_THAT(std::span(read.slots, 3), ElementsAreArray(slots));
    EXPECT_THAT(std::span(read.row_begin, 3), ElementsAreArray(row_begin));
    EXPECT_THAT(std::span(read.context, 2), ElementsAreArray(context));
    EXPECT_THAT(std::span(read.page_begin, 3), ElementsAreArray(page_begin));
    EXPECT_THAT(std::span(read.pages, 3), ElementsAreArray(pages));
    EXPECT_THAT(std::span(read.logit_rows, 2), ElementsAreArray(logit_rows));
    ASSERT_EQ(read.parents != nullptr, is_tree);
    if (is_tree) {
      EXPECT_THAT(std::span(read.parents, 3), ElementsAreArray(parents));
    }
  }
}

TEST(RankMessages, CopiesSurvive) {
  const std::vector<SlotCopy> copies = {{1, 2}, {30, 4}};
  std::vector<int32_t> message;
  EncodeCopies(copies, &message);
  EXPECT_EQ(OrderOf(message), RankOrder::kCopyKvSlots);
  EXPECT_THAT(DecodeCopies(message), ElementsAreArray(copies));
}

TEST(RankMessages, StartSurvives) {
  const RankAssignment assignment =
      RankAssignment::Decode(RankAssignment{.shard = {3, 4}, .agreed = "weights f32"}.Encode());
  EXPECT_EQ(assignment.shard.rank, 3);
  EXPECT_EQ(assignment.shard.ranks, 4);
  EXPECT_EQ(assignment.agreed, "weights f32");
  const RankReport bad = RankReport::Decode(RankReport{NotFound("no such file"), 0}.Encode());
  EXPECT_EQ(bad.status.ToString(), "NOT_FOUND: no such file");
  const RankReport good = RankReport::Decode(RankReport{Status(), 7}.Encode());
  EXPECT_TRUE(good.status.ok());
  EXPECT_EQ(good.pages, 7);
  const std::vector<std::byte> group = {std::byte{1}, std::byte{2}, std::byte{250}};
  const RankStart start = RankStart::Decode(RankStart{.pages = 9, .group = group}.Encode());
  EXPECT_EQ(start.pages, 9);
  EXPECT_EQ(start.group, group);
}

TEST(RankChannel, ReportsTheClosedEnd) {
  auto [here, there] = RankChannel::Connect().value();
  const std::vector<int32_t> large(1 << 20, 3);  // more than a socket holds
  std::thread sender([&end = here, &large] {
    EXPECT_TRUE(end.Send(large).ok());
    EXPECT_TRUE(end.Send({}).ok());
    end.Close();
  });
  std::vector<int32_t> message;
  EXPECT_TRUE(there.Receive(&message).ok());
  EXPECT_EQ(message, large);
  EXPECT_TRUE(there.Receive(&message).ok());
  EXPECT_TRUE(message.empty());
  EXPECT_EQ(there.Receive(&message).code(), Code::kUnavailable);
  sender.join();
  EXPECT_EQ(there.Send(large).code(), Code::kUnavailable);
}

TEST(RankProcesses, RejectsMalformedFollowArgument) {
  const Result<FollowArguments> good = ParseFollow("7,-1");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->channel, 7);
  EXPECT_EQ(good->region, -1);
  for (const char* text : {"", "7", "7,", "x,3", "7,8,9", "-1,3"}) {
    EXPECT_EQ(ParseFollow(text).status().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace outrider
