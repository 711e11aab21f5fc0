// The events of an answer do not depend on how its text is split: a step of the engine may produce
// one token or ten.
#include <gtest/gtest.h>

#include "tests/verifier/chat/chat_testing.h"

namespace outrider {
namespace {

using testing::Read;
using testing::Sample;
using testing::Samples;

TEST(CutEverywhere, WholeTextsSayWhatIsWritten) {
  for (const Sample& sample : Samples()) {
    EXPECT_EQ(Read(sample.reading, {sample.text}), sample.shown) << sample.text;
  }
}

TEST(CutEverywhere, ByteByByte) {
  for (const Sample& sample : Samples()) {
    const std::string_view text = sample.text;
    std::vector<std::string_view> pieces;
    for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
    EXPECT_EQ(Read(sample.reading, pieces), sample.shown) << sample.text;
  }
}

TEST(CutEverywhere, ParsesUnderEveryPairOfCuts) {
  for (const Sample& sample : Samples()) {
    const std::string_view text = sample.text;
    for (size_t a = 0; a <= text.size(); ++a) {
      for (size_t b = a; b <= text.size(); ++b) {
        ASSERT_EQ(Read(sample.reading, {text.substr(0, a), text.substr(a, b - a), text.substr(b)}),
                  sample.shown)
            << sample.text << "\ncut at " << a << " and " << b;
      }
    }
  }
}

// Only markers and names of calls are removed, wherever an answer ends.
TEST(CutEverywhere, EveryPrefixKeepsItsText) {
  for (const Sample& sample : Samples()) {
    if (sample.text != sample.shown) continue;  // contains a call, or reasoning
    for (size_t end = 0; end <= sample.text.size(); ++end) {
      const std::string begin = sample.text.substr(0, end);
      EXPECT_EQ(Read(sample.reading, {begin}), begin);
    }
  }
}

// Pieces that end with whole characters give events that do, too.
TEST(CutEverywhere, NoEventSplitsACharacter) {
  for (const Sample& sample : Samples()) {
    const std::string_view text = sample.text;
    AnswerReader reader(sample.reading);
    std::vector<AnswerEvent> events;
    for (size_t i = 0; i < text.size();) {
      size_t size = 1;
      while (i + size < text.size() &&
             (static_cast<unsigned char>(text[i + size]) & 0xC0) == 0x80) {
        ++size;
      }
      const auto more = reader.Push(text.substr(i, size));
      events.insert(events.end(), more.begin(), more.end());
      i += size;
    }
    for (const AnswerEvent& event : events) {
      EXPECT_NE(static_cast<unsigned char>(event.text[0]) & 0xC0, 0x80) << sample.text;
    }
  }
}

}  // namespace
}  // namespace outrider
