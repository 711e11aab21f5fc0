#include "common/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace outrider {
namespace {

TEST(Status, IsOkByDefault) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "OK");
}

TEST(Status, ShowsItsCodeAndMessage) {
  const Status status = InvalidArgument("max_tokens is 0");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.ToString(), "INVALID_ARGUMENT: max_tokens is 0");
}

TEST(Status, AnnotatingKeepsTheCode) {
  EXPECT_EQ(NotFound("no such file").Annotate("model").ToString(),
            "NOT_FOUND: model: no such file");
  EXPECT_EQ(Status().Annotate("model").ToString(), "OK");
}

TEST(Status, UnknownCodeHasName) { EXPECT_STREQ(CodeName(static_cast<Code>(99)), "UNKNOWN"); }

TEST(Result, HoldsAValueOrAReason) {
  const Result<int> value = 7;
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, 7);
  EXPECT_TRUE(value.status().ok());
  const Result<int> error = NotFound("gone");
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().message(), "gone");
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 3);
}

Status FailIf(bool fail) { return fail ? Internal("failed") : Status(); }
Result<int> HalfOf(int n) {
  if (n % 2 != 0) return InvalidArgument("odd");
  return n / 2;
}

Result<int> QuarterOf(int n, bool fail, int* steps) {
  OUTRIDER_TRY(FailIf(fail));
  ++*steps;
  OUTRIDER_ASSIGN(const int half, HalfOf(n));
  ++*steps;
  OUTRIDER_ASSIGN(const int quarter, HalfOf(half));
  ++*steps;
  return quarter;
}

TEST(Macros, ReturnAtFirstError) {
  int steps = 0;
  EXPECT_EQ(*QuarterOf(12, false, &steps), 3);
  EXPECT_EQ(steps, 3);
  steps = 0;
  EXPECT_EQ(QuarterOf(6, false, &steps).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(steps, 2);
  steps = 0;
  EXPECT_EQ(QuarterOf(12, true, &steps).status().code(), Code::kInternal);
  EXPECT_EQ(steps, 0);
}

TEST(ResultDeathTest, TakingMissingValueDies) {
  Result<int> error = NotFound("gone");
  EXPECT_DEATH((void)error.value(), "check failed");
  EXPECT_DEATH((void)Result<int>(Status()), "check failed");
}

}  // namespace
}  // namespace outrider
