#include "verifier/chat/call_parser.h"

#include <gtest/gtest.h>

#include "tests/verifier/chat/chat_testing.h"

namespace outrider {
namespace {

using testing::Read;
using testing::Reading;
using testing::Shown;

std::string PushedAndShown(AnswerReader& reader, const std::string& text) {
  return Shown(reader.Push(text));
}

TEST(CallParser, StreamsArgumentsAsTheyCome) {
  AnswerReader reader(Reading(ToolFormat::kHermes));
  EXPECT_EQ(PushedAndShown(reader, "Hm. <tool_call>{\"name\": \"f\", "), "Hm.");
  EXPECT_EQ(PushedAndShown(reader, "\"arguments\": {\"a"), "f{\"a");
  EXPECT_EQ(PushedAndShown(reader, "\": [1,"), "\": [1,");
  EXPECT_EQ(PushedAndShown(reader, "2]}}\n</tool_"), "2]}");
  EXPECT_EQ(PushedAndShown(reader, "call>"), "");
  EXPECT_EQ(Shown(reader.Finish()), "");
}

TEST(CallParser, StreamsContentAsItComes) {
  AnswerReader reader(Reading(ToolFormat::kLlama3Json));
  EXPECT_EQ(PushedAndShown(reader, "One "), "One");
  EXPECT_EQ(PushedAndShown(reader, "two <|pyt"), " two");
  EXPECT_EQ(PushedAndShown(reader, "hon three"), " <|python three");
}

TEST(CallParser, ReleasesTextThatIsNoCall) {
  AnswerReader reader(Reading(ToolFormat::kLlama3Json));
  EXPECT_EQ(PushedAndShown(reader, "{\"name\": \"Bob\""), "{\"name\": \"Bob\"");
  AnswerReader pythonic(Reading(ToolFormat::kPythonic));
  EXPECT_EQ(PushedAndShown(pythonic, "[Note "), "[Note");
}

// A model can be made to repeat any text.
TEST(CallParser, TakesTimeLinearInTheText) {
  std::string nested;
  for (int i = 0; i < 50000; ++i) nested += "<tool_call>{\"a\": \"";
  EXPECT_EQ(Read(Reading(ToolFormat::kHermes), {nested}), nested);
  const std::string deep =
      "<tool_call>{\"name\": \"f\", \"arguments\": " + std::string(500000, '{');
  EXPECT_EQ(Read(Reading(ToolFormat::kHermes), {deep}), "f" + std::string(500000, '{'));
  const std::string python = "[f(a=" + std::string(500000, '[');
  EXPECT_EQ(Read(Reading(ToolFormat::kPythonic), {python}), python);
  const std::string name = "<｜tool▁call▁begin｜>" + std::string(500000, 'x');
  EXPECT_EQ(Read(Reading(ToolFormat::kDeepSeekV3), {name}), name);
}

TEST(CallParser, LeavesOutCallsBeyondTheLimit) {
  std::string text, expected;
  for (int i = 0; i <= kMaxAnswerCalls; ++i) {
    text += "<tool_call>{\"name\": \"f\"}</tool_call>";
    if (i < kMaxAnswerCalls) expected += i == 0 ? "f{}" : "|f{}";
  }
  EXPECT_EQ(Read(Reading(ToolFormat::kHermes), {text}), expected);
}

}  // namespace
}  // namespace outrider
