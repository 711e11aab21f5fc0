#include "common/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/socket.h>
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
  EXPECT_THAT(line, HasSubstr("\"count\":3,\"share\":0.25,\"up\":true,\"not_finite\":\""));
  EXPECT_THAT(line, EndsWith(",\"text\":\"4\"}\n"));
}

TEST(Log, NumbersEndWithoutZeros) {
  EXPECT_THAT(
      Logged([] {
        Log(LogLevel::kInfo, "m", {{"a", 30.0}, {"b", 0.0}, {"c", 1.5}, {"d", 100}, {"e", 0.001f}});
      }),
      EndsWith(" m a=30 b=0 c=1.5 d=100 e=0.001\n"));
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

// stderr is `file` as long as this lives.
class Redirected {
 public:
  explicit Redirected(int file) : before_(dup(STDERR_FILENO)) { dup2(file, STDERR_FILENO); }
  ~Redirected() {
    dup2(before_, STDERR_FILENO);
    close(before_);
  }

 private:
  const int before_;
};

// Writes `count` long lines and returns how many were lost.
int WriteLongLines(int count) {
  const uint64_t before = LogLinesLost();
  const std::vector<LogField> fields = {{"value", std::string(1000, 'x')}};
  for (int i = 0; i < count; ++i) LogUnlimited(LogLevel::kInfo, "line", fields);
  return static_cast<int>(LogLinesLost() - before);
}

std::string ReadSome(int file) {
  std::array<char, 4096> piece;
  const ssize_t n = read(file, piece.data(), piece.size());
  return std::string(piece.data(), static_cast<size_t>(std::max(n, ssize_t{0})));
}

// Were it to wait for room, this test would never end.
TEST(Log, FullPipeCountsLostLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 16384), 0);
  constexpr int kLines = 100;
  int lost = 0;
  {
    const Redirected redirected(ends[1]);
    lost = WriteLongLines(kLines);
  }
  close(ends[1]);
  std::string log;
  for (std::string piece; !(piece = ReadSome(ends[0])).empty();) log += piece;
  close(ends[0]);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), kLines - lost);
  EXPECT_THAT(log, EndsWith("xxx\n")) << "the last line is whole";
}

// Reads until there is room for a line "after", and this line.
std::string ReadUntilLineFits(int file) {
  std::string log;
  while (true) {
    log += ReadSome(file);
    const uint64_t before = LogLinesLost();
    LogUnlimited(LogLevel::kInfo, "after", {});
    if (LogLinesLost() == before) break;
  }
  while (log.find("INFO after") == std::string::npos) log += ReadSome(file);
  return log;
}

// A terminal that is not read says that it has room until it has none at all, so a line finds too
// little of it. Were it to wait for more, this test would never end.
TEST(Log, FullTerminalTearsAndCountsLines) {
  const int reader = posix_openpt(O_RDWR | O_NOCTTY);
  if (reader < 0) GTEST_SKIP() << "there are no pseudo-terminals here";
  ASSERT_TRUE(grantpt(reader) == 0 && unlockpt(reader) == 0);
  const int terminal = open(ptsname(reader), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  constexpr int kLines = 300;
  int lost = 0;
  std::string log;
  {
    const Redirected redirected(terminal);
    lost = WriteLongLines(kLines);
    log = ReadUntilLineFits(reader);
  }
  close(terminal);
  close(reader);
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, kLines);
  const std::string whole = "INFO line value=" + std::string(1000, 'x') + "\r\n";
  int found = 0;
  for (size_t at = 0; (at = log.find(whole, at)) != std::string::npos; ++at) ++found;
  EXPECT_GE(found, kLines - lost);
  EXPECT_LE(found, kLines - lost + 1) << "of one only the end of the line may be missing";
  EXPECT_THAT(log.substr(log.rfind('\n', log.find("INFO after"))),
              MatchesRegex("\n[0-9TZ:.-]+ INFO after(.|\n|\r)*"));
}

// As of systemd's services.
TEST(Log, FullSocketCountsLostLines) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const int size = 16384;
  ASSERT_EQ(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
  {
    const Redirected redirected(ends[1]);
    const int lost = WriteLongLines(200);
    EXPECT_GT(lost, 0);
    EXPECT_LT(lost, 200);
    EXPECT_THAT(ReadUntilLineFits(ends[0]), MatchesRegex("(.|\n)*\n[0-9TZ:.-]+ INFO after\n"));
  }
  close(ends[0]);
  close(ends[1]);
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
