#include "common/json/json.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/allocation_watch.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

JsonValue Parsed(const std::string& text) {
  Result<JsonValue> json = ParseJsonObject(text, "the text");
  EXPECT_TRUE(json.ok()) << json.status().ToString();
  return *json;
}

std::string Refusal(const std::string& text, const JsonLimits& limits = {}) {
  const Status status = ParseJsonObject(text, "the body", limits).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << text.substr(0, 40);
  return status.message();
}

std::string Nested(size_t levels) {  // the surrounding object is one more level
  return R"({"a": )" + std::string(levels, '[') + std::string(levels, ']') + "}";
}

TEST(Json, RefusesMalformedJsonAndNonObjects) {
  for (const char* text : {"", "{", "{\"a\": nul}", "{\"a\": \"\xff\"}", R"({"a": "\ud800"})",
                           "{} {}", R"({"a": 1e999})", R"({"a": [1,]})"}) {
    EXPECT_THAT(Refusal(text), StartsWith("the body is not well-formed JSON in UTF-8, near byte "))
        << text;
  }
  EXPECT_EQ(Refusal("[1]"), "the body is not a JSON object but an array");
  EXPECT_THAT(Refusal(std::string("{}\0{]", 5)), HasSubstr("a NUL at byte 2"));
  EXPECT_EQ(Refusal(R"("x")"), R"(the body is not a JSON object but "x")");
}

TEST(Json, StopsAtEachLimit) {
  EXPECT_TRUE(ParseJsonObject(Nested(kMaxJsonDepth - 1), "the body").ok());
  EXPECT_EQ(Refusal(Nested(kMaxJsonDepth)), "the body is nested deeper than 16 levels");
  const std::string text = R"({"a": [1, 2, {"b": "c"}]})";  // 6 values, 2 + 2 + 2 large ones
  EXPECT_TRUE(
      ParseJsonObject(text, "", {.bytes = text.size(), .values = 6, .large_values = 6}).ok());
  EXPECT_EQ(Refusal(text, {.bytes = 24}), "the body has 25 bytes, at most 24 are read");
  EXPECT_EQ(Refusal(text, {.values = 5}), "the body holds more than 5 values");
  EXPECT_EQ(
      Refusal(text, {.large_values = 5}),
      "the body holds more than 5 members, strings, arrays, objects and integers beyond 64 bits");
}

TEST(Json, LongIntegersKeepTheirDigits) {
  const std::string text =
      R"({"b":{"n":-9223372036854775809,"x":2e+20},"a":[1,[18446744073709551616],)"
      R"(18446744073709551617,"",123456789012345678901234567890],"c":18446744073709551615})";
  const JsonValue json = ParseJsonObject(text, "the body", {.exact_text = true}).value();
  EXPECT_EQ(json.Dump(), text);
  EXPECT_EQ(json["a"][2].Dump(), "18446744073709551617");
  EXPECT_EQ(json["a"][9].Dump(), "null");
  EXPECT_TRUE(json["a"][2].is_integer() && json["c"].is_integer());
  EXPECT_FALSE(json["b"]["x"].is_integer() || json["a"][2].is_int64() || json["c"].is_int64());
  EXPECT_TRUE(json["a"][0].is_int64());
  EXPECT_EQ(json["a"][2].Int().status().message(),
            "a[2] is 18446744073709551617, must be an integer from -2147483648 to 2147483647");
  EXPECT_EQ(json["b"]["n"].Number(-1e19, 0).value(), -9223372036854775808.0);
  EXPECT_FALSE(ParseJsonObject(text, "the body").value()["a"][2].is_integer());
  EXPECT_THAT(Refusal(text, {.large_values = 13, .exact_text = true}),
              HasSubstr("more than 13 members, strings, arrays, objects and integers beyond"));
  EXPECT_TRUE(ParseJsonObject(text, "", {.large_values = 14, .exact_text = true}).ok());
}

// What follows the value that exceeds the limit is not even read.
TEST(Json, TakesNoMemoryBeyondALimit) {
  std::string text = R"({"a": [0)";
  for (int i = 0; i < 1 << 18; ++i) text += R"(,"")";
  const std::string deep = R"({"a": )" + std::string(1 << 20, '[');
  Refusal(text, {.large_values = 100});  // makes allocations that happen once and are kept
  const testing::AllocationWatch watch;
  Refusal(text, {.large_values = 100});
  Refusal(deep);
  EXPECT_LT(watch.peak(), 64 << 10);
  EXPECT_EQ(watch.held(), 0);
}

TEST(Json, RefusesDuplicateMembersByDefault) {
  EXPECT_EQ(Refusal(R"({"a": 1, "a": 2})"), "a is given twice; give it once");
  EXPECT_EQ(Refusal(R"({"a": [{}, {"b c": {"d": 1, "d": 1}}]})"),
            R"(a[1]["b c"].d is given twice; give it once)");
  const auto last = ParseJsonObject(R"({"a": {"b": 1}, "a": [2]})", "", {.repeated_members = true});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->Dump(), R"({"a":[2]})");
}

TEST(Json, NamesFilePathAndValue) {
  const testing::TempDir folder;
  const std::string file = folder.path() + "/config.json";
  EXPECT_EQ(ReadJsonObject(file, {}).status().code(), Code::kNotFound);
  std::ofstream(file) << R"({"model": {"vocab": {"▁a": [0, "\u0007x"], "\n": 1}}, "list": []})";
  EXPECT_THAT(ReadJsonObject(file, {.bytes = 9}).status().message(),
              AllOf(StartsWith(file), HasSubstr("at most 9")));
  const JsonValue json = ReadJsonObject(file, {.bytes = 100}).value();
  const JsonValue vocab = json["model"]["vocab"];
  EXPECT_EQ(vocab["▁a"][1].Int(0, 7).status().message(),
            file + R"(: model.vocab["▁a"][1] is "?x", must be an integer from 0 to 7)");
  EXPECT_EQ(vocab["\n"].Error("is odd").message(), file + R"(: model.vocab["?"]: is odd)");
  EXPECT_EQ(vocab["b"]["c"][3].String().status().message(),
            file + ": model.vocab.b.c[3] is missing, must be a string");
  EXPECT_EQ(json["list"][0].Bool().status().message(),
            file + ": list[0] is missing, must be true or false");
  EXPECT_EQ(json["list"].MustBeObject().message(), file + ": list is an array, must be an object");
  EXPECT_EQ(json["list"].Unsupported().ToString(),
            "UNIMPLEMENTED: " + file + ": list is an array, which is not supported");
  EXPECT_EQ(json.AllowOnly({"list", "x"}).message(),
            file + ": model: is not known here; known are list, x");
  EXPECT_TRUE(Parsed(R"({"list": [], "other": null})").AllowOnly({"list"}).ok());
  std::ofstream(file) << "[";
  EXPECT_EQ(ReadJsonObject(file, {}).status().message(),
            file + ": the file is not well-formed JSON in UTF-8, near byte 2");
}

TEST(Json, ChecksTypesAndRanges) {
  const JsonValue json = Parsed(R"({"int": 7, "whole": 7.0, "big": 18446744073709551615,
      "low": -9223372036854775808, "huge": 1e300, "half": 0.5, "text": "7", "yes": true,
      "none": null})");
  EXPECT_EQ(*json["int"].Int(), 7);
  EXPECT_EQ(*json["int"].Int(7, 7), 7);
  EXPECT_EQ(*json["low"].Int64(INT64_MIN, 0), INT64_MIN);
  for (const char* name : {"whole", "big", "low", "huge", "half", "text", "yes", "none", "x"}) {
    EXPECT_FALSE(json[name].Int().ok()) << name;
  }
  EXPECT_FALSE(json["big"].Int64(INT64_MIN, INT64_MAX).ok());
  EXPECT_FALSE(json["int"].Int(8, 9).ok());
  EXPECT_FALSE(json["int"].Int(5, 6).ok());
  EXPECT_EQ(*json["half"].Float(), 0.5f);
  EXPECT_EQ(*json["int"].Float(), 7.f);
  EXPECT_FALSE(json["huge"].Float().ok());
  EXPECT_EQ(*json["huge"].Number(0, 1e300), 1e300);
  EXPECT_FALSE(json["half"].Number(0.6, 1).ok());
  EXPECT_FALSE(json["text"].Number(0, 9).ok());
  EXPECT_TRUE(*json["yes"].Bool());
  EXPECT_FALSE(json["int"].Bool().ok());
  EXPECT_EQ(*json["text"].String(), "7");
  EXPECT_FALSE(json["int"].String().ok());
  EXPECT_TRUE(json["whole"].Is(7) && json["int"].Is(7) && json["text"].Is("7"));
  EXPECT_FALSE(json["text"].Is(7) || json["int"].Is("7") || json["yes"].Is(1));
  EXPECT_TRUE(json["whole"].IsOneOf("[8, 7]"));
  EXPECT_FALSE(json["none"].IsOneOf("[]") || json["yes"].IsOneOf("[1]"));
}

TEST(Json, NullAndAbsentKeepDefaults) {
  const JsonValue json = Parsed(R"({"null": null, "n": 3, "seed": -1, "s": "x", "f": 0.5,
                                    "b": false, "big": 18446744073709551615})");
  int n = 5;
  std::optional<int> maybe = 6;
  std::optional<uint64_t> seed;
  std::string text = "kept";
  float number = 2;
  bool flag = true;
  for (const char* name : {"null", "absent"}) {
    EXPECT_TRUE(json[name].Read(&n, 0, 1).ok() && json[name].Read(&maybe).ok());
    EXPECT_TRUE(json[name].Read(&seed).ok() && json[name].Read(&text).ok());
    EXPECT_TRUE(json[name].Read(&number).ok() && json[name].Read(&flag).ok());
  }
  EXPECT_TRUE(n == 5 && maybe == 6 && !seed && text == "kept" && number == 2 && flag);
  EXPECT_FALSE(json["n"].Read(&n, 0, 2).ok() || json["n"].Read(&text).ok());
  EXPECT_TRUE(n == 5 && text == "kept");
  EXPECT_TRUE(json["n"].Read(&n, 0, 3).ok() && json["n"].Read(&maybe).ok());
  EXPECT_TRUE(json["s"].Read(&text).ok() && json["f"].Read(&number).ok());
  EXPECT_TRUE(json["b"].Read(&flag).ok() && json["seed"].Read(&seed).ok());
  EXPECT_TRUE(n == 3 && maybe == 3 && seed == ~uint64_t{0} && text == "x" && number == 0.5f);
  EXPECT_FALSE(flag);
  EXPECT_TRUE(json["big"].Read(&seed).ok());
  EXPECT_FALSE(json["f"].Read(&seed).ok());
}

TEST(Json, VisitsMembersUntilTheFirstError) {
  const JsonValue json = Parsed(R"({"b": 2, "a": 1, "c": 3})");
  std::vector<std::string> names;
  const Status status = json.ForEachMember([&](const std::string& name, const JsonValue& value) {
    names.push_back(name);
    return value.Is(2) ? value.Error("is enough") : Status();
  });
  EXPECT_EQ(status.message(), "b: is enough");
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(json.size(), 3U);
  EXPECT_EQ(json["a"].size(), 0U);
}

TEST(Json, CanWalkMembersInTextOrder) {
  const auto order = [](const JsonLimits& limits) {
    const auto json = ParseJsonObject(
        R"({"b": {"z": 1, "y": 2, "x": 3}, "a": {}, "c": [{"q": 0}]})", "it", limits);
    std::string names;
    const std::function<Status(const std::string&, const JsonValue&)> visit =
        [&](const std::string& name, const JsonValue& value) {
          names += name;
          return value.ForEachMember(visit);
        };
    EXPECT_TRUE(json->ForEachMember(visit).ok());
    return names;
  };
  EXPECT_EQ(order({}), "abxyzc");
  EXPECT_EQ(order({.exact_text = true}), "bzyxac");
}

TEST(Json, DumpsMembersInTheSameOrder) {
  const std::string text = R"({"b":{"z\n":[1,{"y":2.5,"x":null}],"é":"\""},"a":[]})";
  EXPECT_EQ(ParseJsonObject(text, "it", {.exact_text = true})->Dump(), text);
  EXPECT_EQ(ParseJsonObject(text, "it", {.exact_text = true})->operator[]("b")["z\n"].Dump(),
            R"([1,{"y":2.5,"x":null}])");
  EXPECT_EQ(ParseJsonObject(text, "it")->Dump(),
            R"({"a":[],"b":{"z\n":[1,{"x":null,"y":2.5}],"é":"\""}})");
}

TEST(Json, DepthCanBeAnother) {
  EXPECT_EQ(Refusal(Nested(3), {.depth = 3}), "the body is nested deeper than 3 levels");
  EXPECT_TRUE(ParseJsonObject(Nested(2), "the body", {.depth = 3}).ok());
  EXPECT_TRUE(ParseJsonObject(Nested(40), "the body", {.depth = 64}).ok());
}

TEST(Json, ValueKeepsItsDocument) {
  const JsonValue inner = Parsed(R"({"a": {"b": "text"}})")["a"]["b"];
  EXPECT_EQ(inner.text(), "text");
  EXPECT_EQ(inner.path(), "a.b");
}

}  // namespace
}  // namespace outrider
