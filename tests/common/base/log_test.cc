#include "common/base/log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace outrider {
namespace {

using ::testing::EndsWith;
using ::testing::MatchesRegex;

// The output of `write` on stderr; the log's settings are restored afterwards.
template <class Write>
std::string Logged(const Write& write) {
  ::testing::internal::CaptureStderr();
  write();
  SetLogLevel(LogLevel::kInfo);
  SetLogJson(false);
  return ::testing::internal::GetCapturedStderr();
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

// DEL, C1 (two bytes of UTF-8), U+2028, and invalid UTF-8: a lone C1 byte, an overlong slash, a
// surrogate, a truncated sequence. Letters are not escaped.
TEST(Log, ControlCharactersAreEscaped) {
  const std::string hostile =
      "a\x7f\xc2\x9b"
      "31m\xc2\x85\xe2\x80\xa8\x9b\xc0\xaf\xed\xa0\x80\xc3\xa9\xf0\x9f\x90\x8e\xe2\x82";
  const std::string escaped =
      "a\\u007f\\u009b31m\\u0085\\u2028\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\xc3\xa9\xf0\x9f"
      "\x90\x8e"
      "\\ufffd\\ufffd";
  EXPECT_THAT(Logged([&] {
                Log(LogLevel::kInfo, "hello", {{"name", hostile}});
              }),
              EndsWith("name=\"" + escaped + "\"\n"));
  EXPECT_THAT(Logged([&] {
                SetLogJson(true);
                Log(LogLevel::kInfo, "hello", {{"name", hostile}});
              }),
              EndsWith("\"name\":\"" + escaped + "\"}\n"));
}

TEST(Log, RepeatedLinesAreLimitedAndCounted) {
  const std::string log = Logged([] {
    for (int i = 0; i < 100000; ++i) Log(LogLevel::kWarning, "the same again", {{"i", i}});
  });
  // A few more than a burst, since the clock advances.
  const auto lines = std::count(log.begin(), log.end(), '\n');
  EXPECT_GE(lines, 20);
  EXPECT_LT(lines, 1000);
  EXPECT_EQ(std::count(log.begin(), log.end(), 'W'), lines);
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
