#include "common/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace outrider {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
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

TEST(Log, LineHasTimeLevelAndFields) {
  const std::string line = Logged([] {
    Log(LogLevel::kWarning, "drafter joined", {{"drafter", "d0"}, {"sessions", 3}});
  });
  EXPECT_THAT(line, MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9]+Z WARNING drafter joined drafter=d0 "
                                 "sessions=3\n"));
}

TEST(Log, PeerValuesCannotBreakLine) {
  const std::string line = Logged([] {
    Log(LogLevel::kInfo, "hello", {{"name", "a\nb \"c\" \\"}, {"empty", ""}, {"pair", "x=y"}});
  });
  EXPECT_THAT(line, EndsWith("INFO hello name=\"a\\u000ab \\\"c\\\" \\\\\" empty=\"\" "
                             "pair=\"x=y\"\n"));
}

// DEL, C1 (two bytes of UTF-8), U+2028, invalid UTF-8 (a lone C1 byte, an overlong slash, a
// surrogate, a truncated sequence), and U+202E, which reverses the text after it. Letters are not
// escaped.
TEST(Log, ControlCharactersAreEscaped) {
  const std::string hostile =
      "a\x7f\xc2\x9b"
      "31m\xc2\x85\xe2\x80\xa8\x9b\xc0\xaf\xed\xa0\x80\xc3\xa9\xf0\x9f\x90\x8e\xe2\x80\xae\xe2\x82";
  const std::string escaped =
      "a\\u007f\\u009b31m\\u0085\\u2028\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\xc3\xa9\xf0\x9f"
      "\x90\x8e"
      "\\u202e\\ufffd\\ufffd";
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

TEST(Log, JsonHasNumbersAndBooleansUnquoted) {
  const std::string line = Logged([] {
    SetLogJson(true);
    Log(LogLevel::kInfo, "m",
        {{"count", 3}, {"share", 0.25}, {"up", true}, {"not_finite", 0.0 / 0.0}, {"text", "4"}});
  });
  EXPECT_THAT(line, HasSubstr("\"count\":3,\"share\":0.250000,\"up\":true,\"not_finite\":\""));
  EXPECT_THAT(line, EndsWith(",\"text\":\"4\"}\n"));
}

TEST(Log, CutsValuesToFitPipe) {
  for (const bool json : {false, true}) {
    const std::string line = Logged([json] {
      SetLogJson(json);
      Log(LogLevel::kInfo, "m", {{"a", std::string(10'000, '\n')}, {"b", "no room"}, {"c", 5}});
    });
    EXPECT_LE(line.size(), kMaxLogLineBytes);
    EXPECT_GT(line.size(), kMaxLogLineBytes - 64);
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
    EXPECT_THAT(line, EndsWith(json ? "\\u000a...\"}\n" : "\\u000a...\"\n"));
  }
}

TEST(Log, UnlimitedLinesAreAllWritten) {
  const std::string log = Logged([] {
    const std::vector<LogField> fields = {{"i", 1}};
    for (int i = 0; i < 100; ++i) LogUnlimited(LogLevel::kInfo, "each of these", fields);
    SetLogLevel(LogLevel::kWarning);
    LogUnlimited(LogLevel::kInfo, "each of these", fields);
  });
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 100);
}

// Were it to wait for room, this test would never end.
TEST(Log, FullPipeCountsLostLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 16384), 0);
  const int before = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  const uint64_t lost_before = LogLinesLost();
  const std::vector<LogField> fields = {{"value", std::string(1000, 'x')}};
  constexpr uint64_t kLines = 100;
  for (uint64_t i = 0; i < kLines; ++i) LogUnlimited(LogLevel::kInfo, "line", fields);
  const uint64_t lost = LogLinesLost() - lost_before;
  dup2(before, STDERR_FILENO);
  close(before);
  close(ends[1]);
  std::string log;
  std::array<char, 4096> piece;
  for (ssize_t n = 0; (n = read(ends[0], piece.data(), piece.size())) > 0;) {
    log.append(piece.data(), static_cast<size_t>(n));
  }
  close(ends[0]);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(static_cast<uint64_t>(std::count(log.begin(), log.end(), '\n')), kLines - lost);
  EXPECT_THAT(log, EndsWith("xxx\n")) << "the last line is whole";
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
