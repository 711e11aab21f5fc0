#include "drafter/rpc/dial_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Time kStart{};

TEST(DialFailures, LogsAbsentVerifierEachMinute) {
  DialFailures failures;
  int logged = 0;
  for (int second = 0; second < 600; second += 2) {
    // A resolver's errors alternate.
    const Status end = Unavailable(second % 4 == 0 ? "no A record" : "no AAAA record");
    if (failures.Add(end, kStart + seconds(second))) ++logged;
    EXPECT_EQ(failures.Trying(kStart + seconds(second)), seconds(second));
  }
  EXPECT_EQ(logged, 10);
}

TEST(DialFailures, LogsEveryNewCode) {
  DialFailures failures;
  EXPECT_TRUE(failures.Add(Unavailable("gone"), kStart));
  EXPECT_TRUE(failures.Add(FailedPrecondition("other model"), kStart + seconds(2)));
  EXPECT_FALSE(failures.Add(Unavailable("gone"), kStart + seconds(4)));
}

TEST(DialFailures, StartsAgainAfterReset) {
  DialFailures failures;
  EXPECT_TRUE(failures.Add(Unavailable("gone"), kStart));
  failures.Reset();
  EXPECT_TRUE(failures.Add(Unavailable("gone"), kStart + seconds(2)));
  EXPECT_EQ(failures.Trying(kStart + seconds(2)), seconds(0));
}

TEST(DialFailures, NamesHttpPort) {
  EXPECT_THAT(DescribeDialFailure(Unavailable(
                  "failed to connect to all addresses; last error: INTERNAL: Trying to connect an "
                  "http1.x server")),
              HasSubstr("dial the verifier's --listen"));
  EXPECT_THAT(DescribeDialFailure(Unavailable("Connection refused")), Not(HasSubstr("--listen")));
}

}  // namespace
}  // namespace outrider
