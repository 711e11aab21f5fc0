#include "common/base/log.h"

#include <gmock/gmock.h>

#include <string>

namespace outrider {
namespace {

using testing::EndsWith;
using testing::MatchesRegex;

// What `write` puts on stderr; the log's settings are put back afterwards.
template <class Write>
std::string Logged(const Write& write) {
  testing::internal::CaptureStderr();
  write();
  SetLogLevel(LogLevel::kInfo);
  SetLogJson(false);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, ALineHasTimeLevelMessageAndFields) {
  const std::string line = Logged([] {
    Log(LogLevel::kWarning, "drafter joined", {{"drafter", "d0"}, {"sessions", 3}});
  });
  EXPECT_THAT(line, MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9]+Z WARNING drafter joined drafter=d0 "
                                 "sessions=3\n"));
}

TEST(Log, ValuesFromPeersCannotBreakTheLine) {
  const std::string line = Logged([] {
    Log(LogLevel::kInfo, "hello", {{"name", "a\nb \"c\" \\"}, {"empty", ""}, {"pair", "x=y"}});
  });
  EXPECT_THAT(line, EndsWith("INFO hello name=\"a\\u000ab \\\"c\\\" \\\\\" empty=\"\" "
                             "pair=\"x=y\"\n"));
}

TEST(Log, JsonIsOneObjectALine) {
  const std::string line = Logged([] {
    SetLogJson(true);
    Log(LogLevel::kError, "it \"broke\"", {{"why", "a\tb"}});
  });
  EXPECT_THAT(line, MatchesRegex("\\{\"time\":\"[^\"]+\",\"level\":\"ERROR\",\"message\":"
                                 "\"it \\\\\"broke\\\\\"\",\"why\":\"a\\\\u0009b\"\\}\n"));
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  EXPECT_EQ(Logged([] { Log(LogLevel::kDebug, "quiet"); }), "");
  EXPECT_EQ(Logged([] {
              SetLogLevel(LogLevel::kError);
              Log(LogLevel::kWarning, "quiet");
            }),
            "");
  EXPECT_NE(Logged([] {
              SetLogLevel(LogLevel::kDebug);
              Log(LogLevel::kDebug, "loud");
            }),
            "");
}

TEST(Log, LevelsHaveNames) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(*ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("loud").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
