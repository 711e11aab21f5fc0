// The JSON of spans, compared with OTLP field by field.
#include "common/trace/otlp_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace outrider {
namespace {

using Json = nlohmann::json;

Time At(int64_t nanoseconds) {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::nanoseconds(nanoseconds)));
}

Json Export(const std::vector<Span>& spans) {
  const std::string line = ToOtlpJson({{"service.name", std::string("outrider-test")}}, spans);
  EXPECT_EQ(line.find('\n'), std::string::npos) << "a line each";
  return Json::parse(line);
}

// The first span.
Json OnlySpan(const Span& span) {
  return Export({span})["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
}

Span Example() {
  Span span;
  span.parent.trace = {0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
                       0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c};
  span.parent.span = {0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31};
  span.id = {0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
  span.name = "decode";
  span.start = At(1'000'000'001);
  span.end = At(1'000'000'002);
  return span;
}

TEST(OtlpJson, RequestHoldsResourceScopeAndSpans) {
  const Json request = Export({Example(), Example()});
  ASSERT_EQ(request["resourceSpans"].size(), 1u);
  const Json& resource_spans = request["resourceSpans"][0];
  EXPECT_EQ(resource_spans["resource"]["attributes"],
            Json::parse(R"([{"key":"service.name","value":{"stringValue":"outrider-test"}}])"));
  ASSERT_EQ(resource_spans["scopeSpans"].size(), 1u);
  EXPECT_EQ(resource_spans["scopeSpans"][0]["scope"]["name"], "outrider");
  EXPECT_EQ(resource_spans["scopeSpans"][0]["spans"].size(), 2u);
}

TEST(OtlpJson, IdsAreHexTimesAreStrings) {
  const Json span = OnlySpan(Example());
  EXPECT_EQ(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(span["spanId"], "00f067aa0ba902b7");
  EXPECT_EQ(span["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(span["startTimeUnixNano"], "1000000001");
  EXPECT_EQ(span["endTimeUnixNano"], "1000000002");
  EXPECT_EQ(span["name"], "decode");
  EXPECT_EQ(span["kind"], 1);
  EXPECT_EQ(span["flags"], 0x101) << "sampled, and the parent is known to be ours";
  EXPECT_FALSE(span.contains("traceState"));
  EXPECT_FALSE(span.contains("events"));
  EXPECT_EQ(span["status"], Json::object()) << "unset";
}

TEST(OtlpJson, MarksRootsAndRemoteParents) {
  Span span = Example();
  span.parent.span = {};
  EXPECT_FALSE(OnlySpan(span).contains("parentSpanId"));
  span = Example();
  span.remote_parent = true;
  span.kind = SpanKind::kServer;
  span.parent.state = "vendor=1";
  EXPECT_EQ(OnlySpan(span)["flags"], 0x301);
  EXPECT_EQ(OnlySpan(span)["kind"], 2);
  EXPECT_EQ(OnlySpan(span)["traceState"], "vendor=1");
}

TEST(OtlpJson, AttributesHaveTheirTypes) {
  Span span = Example();
  span.attributes = {{"s", std::string("x")},
                     {"i", std::numeric_limits<int64_t>::max()},
                     {"d", 0.5},
                     {"b", true},
                     {"l", std::vector<std::string>{"stop", "length"}}};
  EXPECT_EQ(OnlySpan(span)["attributes"], Json::parse(R"([{"key":"s","value":{"stringValue":"x"}},
                            {"key":"i","value":{"intValue":"9223372036854775807"}},
                            {"key":"d","value":{"doubleValue":0.5}},
                            {"key":"b","value":{"boolValue":true}},
                            {"key":"l","value":{"arrayValue":{"values":[
                               {"stringValue":"stop"},{"stringValue":"length"}]}}}])"));
}

TEST(OtlpJson, ErrorsAndEventsAreTold) {
  Span span = Example();
  span.status = InvalidArgument("max_tokens is 0");
  span.events = {{.time = At(7), .name = "draft sent", .attributes = {{"n", int64_t{4}}}}};
  const Json json = OnlySpan(span);
  EXPECT_EQ(json["status"], Json::parse(R"({"message":"max_tokens is 0","code":2})"));
  EXPECT_EQ(json["events"], Json::parse(R"([{"timeUnixNano":"7","name":"draft sent",
                                  "attributes":[{"key":"n","value":{"intValue":"4"}}]}])"));
}

TEST(OtlpJson, PeerTextIsBoundedUtf8) {
  Span span = Example();
  span.attributes = {{"name", std::string("bad\xff\"\n")}, {"long", std::string(1 << 20, 'x')}};
  span.status = InvalidArgument(std::string(1 << 20, 'y'));
  const std::string line = ToOtlpJson({}, std::vector<Span>{span});
  EXPECT_LT(line.size(), 4096u);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(OnlySpan(span)["attributes"][0]["value"]["stringValue"], "bad\xef\xbf\xbd\"\n");
}

TEST(OtlpJson, SpanNeverEndsBeforeItsStart) {
  Span span = Example();
  span.end = At(5);
  EXPECT_EQ(OnlySpan(span)["endTimeUnixNano"], OnlySpan(span)["startTimeUnixNano"]);
}

TEST(WallAnchor, MapsSteadyTimesToWallClock) {
  const WallAnchor anchor = WallAnchor::Now();
  EXPECT_EQ(anchor.Nanoseconds(At(1'000'500)) - anchor.Nanoseconds(At(500)), 1'000'000u);
  const uint64_t now = anchor.Nanoseconds(std::chrono::steady_clock::now());
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto apart = std::chrono::nanoseconds(wall).count() - static_cast<int64_t>(now);
  EXPECT_LT(std::abs(apart), int64_t{60} * 1'000'000'000) << "not another epoch's";
}

}  // namespace
}  // namespace outrider
