// What the samples of cut_everywhere_test.cc do not show of harmony: when events come, where
// content begins, and what overlong headers are.
#include "verifier/chat/harmony.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verifier/chat/chat_testing.h"

namespace outrider {
namespace {

using testing::Read;
using testing::Reading;
using testing::Shown;

const AnswerReading kBoth = Reading(ToolFormat::kHarmony, ReasoningFormat::kHarmony);

TEST(HarmonyParser, StreamsEveryPartAsItComes) {
  AnswerReader reader(kBoth);
  const auto shown = [&](const char* text) { return Shown(reader.Push(text)); };
  EXPECT_EQ(shown("<|channel|>analysis"), "");
  EXPECT_EQ(shown("<|message|>Need"), "thought: Need");
  EXPECT_EQ(shown(" the sky.<|e"), "thought:  the sky.");
  EXPECT_EQ(shown("nd|><|start|>assistant<|channel|>commentary<|message|>Let me"), "Let me");
  EXPECT_EQ(shown(" look.<|end|><|start|>assistant to=functions.f"), " look.");
  EXPECT_EQ(shown("<|channel|>commentary <|constrain|>json<|message|>"), "");
  EXPECT_EQ(shown("{\"a"), "f{\"a");
  EXPECT_TRUE(reader.is_cut());
  EXPECT_EQ(shown("\": 1}"), "\": 1}");
  EXPECT_FALSE(reader.is_cut());
  EXPECT_EQ(Shown(reader.Finish()), "");
}

TEST(HarmonyParser, ContentBeginsAfterItsHeader) {
  const auto begin = [](const std::string& text, bool opens_reasoning = false) {
    AnswerReading reading = kBoth;
    reading.opens_reasoning = opens_reasoning;
    AnswerReader reader(reading);
    reader.Push(text);
    reader.Finish();
    return reader.content_begin();
  };
  const std::string analysis = "<|channel|>analysis<|message|>Wé<|end|><|start|>assistant";
  const std::string final_header = "<|channel|>final<|message|>";
  const auto characters = static_cast<int64_t>((analysis + final_header).size()) - 1;  // é has two
  EXPECT_EQ(begin(analysis + final_header), std::nullopt);
  EXPECT_EQ(begin(analysis + final_header + "Hi"), characters);
  EXPECT_EQ(begin(analysis + final_header + "Hi<|end|>" + analysis + final_header + "x"),
            characters);
  EXPECT_EQ(begin(analysis + " to=functions.f<|message|>{"),
            static_cast<int64_t>((analysis + " to=functions.f<|message|>").size()) - 1);
  EXPECT_EQ(begin("Hi"), 0);
  EXPECT_EQ(begin("Hi", /*opens_reasoning=*/true), std::nullopt);
  EXPECT_EQ(begin("Hi<|end|>x", /*opens_reasoning=*/true), 9);
}

// Its text is not lost, and no more than that is held back.
TEST(HarmonyParser, OverlongHeadersAreContent) {
  const std::string text(600, 'x'), spaces(600, ' ');
  EXPECT_EQ(Read(kBoth, {"<|channel|>" + text}), text);
  EXPECT_EQ(Read(kBoth, {"<|start|>" + text + "<|end|>y"}), text + "\ny");
  EXPECT_EQ(Read(kBoth, {"to=" + text}), "to=" + text);
  EXPECT_EQ(Read(kBoth, {spaces + "<|channel|>final<|message|>y"}), spaces + "\ny");
}

TEST(HarmonyParser, TakesTimeLinearInTheText) {
  std::string headers;
  for (int i = 0; i < 50000; ++i) headers += "<|start|>a to=b<|channel|>";
  EXPECT_EQ(Read(kBoth, {headers}), "");
  const std::string spaces(500000, ' ');
  EXPECT_EQ(Read(kBoth, {spaces}), spaces);
  const std::string call = "<|channel|>commentary to=functions.f<|message|>";
  EXPECT_EQ(Read(kBoth, {call + spaces + "{}"}), "f{}");
  EXPECT_EQ(Read(kBoth, {call + std::string(500000, '{')}), "f" + std::string(500000, '{'));
}

}  // namespace
}  // namespace outrider
