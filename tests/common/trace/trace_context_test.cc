// traceparent and tracestate, with the cases of the W3C recommendation, level 1 (sections 3.2 and
// 3.3).
#include "common/trace/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace outrider {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kSpan = "00f067aa0ba902b7";
const std::string kValid = "00-" + kTrace + "-" + kSpan + "-01";

std::string Joined(const std::vector<std::string_view>& values) { return JoinTracestate(values); }

std::optional<TraceContext> Read(const std::vector<std::string_view>& traceparent,
                                 const std::vector<std::string_view>& tracestate = {}) {
  return ReadTraceHeaders(traceparent, tracestate);
}

TEST(Traceparent, IsReadAndWritten) {
  const auto context = ParseTraceparent(kValid);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(ToHex(context->trace), kTrace);
  EXPECT_EQ(ToHex(context->span), kSpan);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(FormatTraceparent(*context), kValid);
}

TEST(Traceparent, PassesOnOnlySampledFlag) {
  const struct {
    const char* flags;
    bool sampled;
  } kCases[] = {{"00", false}, {"01", true},  {"02", false}, {"03", true},
                {"ff", true},  {"fe", false}, {"09", true}};
  for (const auto& c : kCases) {
    const auto context = ParseTraceparent("00-" + kTrace + "-" + kSpan + "-" + c.flags);
    ASSERT_TRUE(context.has_value()) << c.flags;
    EXPECT_EQ(context->sampled, c.sampled) << c.flags;
    EXPECT_EQ(FormatTraceparent(*context).substr(53), c.sampled ? "01" : "00");
  }
}

TEST(Traceparent, MalformedIsNone) {
  const std::string zero_trace(32, '0'), zero_span(16, '0');
  const std::string cases[] = {
      "",
      " ",
      "00",
      "ff-" + kTrace + "-" + kSpan + "-01",   // a version that will never exist
      "0-" + kTrace + "-" + kSpan + "-01",    // too short
      "000-" + kTrace + "-" + kSpan + "-01",  // too long
      "0g-" + kTrace + "-" + kSpan + "-01",   // not a digit
      "00_" + kTrace + "-" + kSpan + "-01",   // not a dash
      "00-" + kTrace + "_" + kSpan + "-01",
      "00-" + kTrace + "-" + kSpan + "_01",
      "00-" + zero_trace + "-" + kSpan + "-01",  // ids that are all zeros
      "00-" + kTrace + "-" + zero_span + "-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + kSpan + "-01",  // upper case
      "00-" + kTrace + "-00F067AA0BA902B7-01",
      "0A-" + kTrace + "-" + kSpan + "-01",
      "00-" + kTrace + "-" + kSpan + "-0A",
      "00-" + kTrace.substr(1) + "-" + kSpan + "-01",  // wrong lengths
      "00-" + kTrace + "0-" + kSpan + "-01",
      "00-" + kTrace + "-" + kSpan.substr(1) + "-01",
      "00-" + kTrace + "-" + kSpan + "0-01",
      "00-" + kTrace + "-" + kSpan + "-1",
      "00-" + kTrace + "-" + kSpan + "-001",
      "00-" + kTrace + "-" + kSpan,
      "00-" + kTrace + "-" + kSpan + "-",
      "00-" + kTrace + "." + kSpan + "-01",
      kValid + "-",  // version 00 ends here
      kValid + "-what-the-future-will-be-like",
      kValid + "," + kValid,
      "cc" + kValid.substr(2) + ".what",  // more, but not after a dash
      std::string("\0", 1) + kValid.substr(1),
  };
  for (const std::string& value : cases) {
    EXPECT_FALSE(ParseTraceparent(value).has_value()) << '"' << value << '"';
  }
}

TEST(Traceparent, ReadsLaterVersions) {
  const std::string later = "cc" + kValid.substr(2);
  for (const std::string& value : {later, later + "-", later + "-what-the-future-will-be-like"}) {
    const auto context = ParseTraceparent(value);
    ASSERT_TRUE(context.has_value()) << value;
    EXPECT_EQ(FormatTraceparent(*context), kValid) << "what is passed on is of our version";
  }
}

TEST(Traceparent, BlanksAroundItAreTheHeaders) {
  EXPECT_TRUE(ParseTraceparent(" \t" + kValid + "\t ").has_value());
}

TEST(Tracestate, JoinsMembersOfAllHeaders) {
  EXPECT_EQ(Joined({}), "");
  EXPECT_EQ(Joined({"foo=1"}), "foo=1");
  EXPECT_EQ(Joined({"foo=1 \t , \t bar=2, \t baz=3", ",,qux=4,"}), "foo=1,bar=2,baz=3,qux=4");
  EXPECT_EQ(Joined({"", "foo=1", ""}), "foo=1");
  EXPECT_EQ(Joined({"fw529a3039@dt=FfAEDi;x:y,a-*/_0=\"@!"}),
            "fw529a3039@dt=FfAEDi;x:y,a-*/_0=\"@!");
  EXPECT_EQ(Joined({"foo= 1"}), "foo= 1") << "blanks may stand in front of a value";
}

TEST(Tracestate, MalformedIsNone) {
  const std::string long_key(257, 'a'), long_value(257, '1');
  const std::string cases[] = {"foo",
                               "=1",
                               "foo=",
                               "foo =1",
                               "FOO=1",
                               "1foo=1",
                               "foo@=1",
                               "@foo=1",
                               "foo@@bar=1",
                               "foo@1bar=1",
                               "foo@bar@baz=1",
                               "foo=1=2",
                               "foo=1\x01",
                               "f\xc3\xb8=1",
                               "foo=1,foo=2",
                               long_key + "=1",
                               "foo=" + long_value,
                               "foo@bar-very-long-one=1"};
  for (const std::string& value : cases) EXPECT_EQ(Joined({value}), "") << '"' << value << '"';
  EXPECT_EQ(Joined({"foo=1", "foo=1"}), "") << "the same key in another header";
  std::string many;
  for (int i = 0; i < 33; ++i) many += (i > 0 ? ",a" : "a") + std::to_string(i) + "=1";
  EXPECT_EQ(Joined({many}), "") << "33 members";
  EXPECT_NE(Joined({many.substr(0, many.rfind(','))}), "") << "32 members";
}

TEST(Tracestate, DropsLongestMembersFirst) {
  const std::string filler(100, 'x'), large(200, 'y');
  const std::string value =
      "a=" + filler + ",b=" + large + ",c=" + filler + ",d=" + filler + ",e=" + filler + ",f=1";
  EXPECT_EQ(Joined({value}),
            "a=" + filler + ",c=" + filler + ",d=" + filler + ",e=" + filler + ",f=1");
  const std::string none_is_long =
      "a=" + filler + ",b=" + filler + ",c=" + filler + ",d=" + filler + ",e=" + filler + ",f=1";
  EXPECT_EQ(Joined({none_is_long}),
            "a=" + filler + ",b=" + filler + ",c=" + filler + ",d=" + filler);
}

TEST(TraceHeaders, StateNeedsExactlyOneParent) {
  EXPECT_FALSE(Read({}, {"foo=1"}).has_value());
  EXPECT_FALSE(Read({kValid, kValid}, {"foo=1"}).has_value());
  EXPECT_FALSE(Read({"00-x"}, {"foo=1"}).has_value());
  EXPECT_EQ(Read({kValid}, {"foo=1"})->state, "foo=1");
  EXPECT_EQ(Read({kValid}, {"foo"})->state, "") << "the parent is kept without it";
}

TEST(TraceIds, AreNeitherZeroNorRepeated) {
  std::set<TraceId> traces;
  std::set<SpanId> spans;
  for (int i = 0; i < 1000; ++i) {
    traces.insert(NewTraceId());
    spans.insert(NewSpanId());
  }
  EXPECT_EQ(traces.size(), 1000u);
  EXPECT_EQ(spans.size(), 1000u);
  EXPECT_EQ(traces.count(TraceId{}), 0u);
  EXPECT_EQ(spans.count(SpanId{}), 0u);
}

}  // namespace
}  // namespace outrider
