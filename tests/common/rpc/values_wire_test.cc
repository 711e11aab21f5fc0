#include "common/rpc/values_wire.h"

#include <gmock/gmock.h>

#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ValuesWire, SamplingParamsRoundTrip) {
  const SamplingParams params{.temperature = 0.f,
                              .top_k = 40,
                              .top_p = 0.9f,
                              .min_p = 0.05f,
                              .repetition_penalty = 1.5f,
                              .presence_penalty = -0.25f,
                              .frequency_penalty = 0.75f,
                              .logit_bias = {{7, -3.f}},
                              .allowed_tokens = {5, 7},
                              .bad_words = {{5}, {7, 5}}};
  v1::SamplingParams wire;
  ToWire(params, &wire);
  const SamplingParams back = FromWire(wire);
  EXPECT_EQ(back.temperature, 0.f);
  EXPECT_EQ(back.top_k, 40);
  EXPECT_EQ(back.top_p, 0.9f);
  EXPECT_EQ(back.min_p, 0.05f);
  EXPECT_EQ(back.repetition_penalty, 1.5f);
  EXPECT_EQ(back.presence_penalty, -0.25f);
  EXPECT_EQ(back.frequency_penalty, 0.75f);
  EXPECT_THAT(back.logit_bias, ElementsAre(Pair(7, -3.f)));
  EXPECT_EQ(back.allowed_tokens, params.allowed_tokens);
  EXPECT_EQ(back.bad_words, params.bad_words);
}

TEST(ValuesWire, StructuredOutputsRoundTrip) {
  using Kind = GrammarSource::Kind;
  const GrammarSource sources[] = {
      {.kind = Kind::kJsonObject},
      {.kind = Kind::kJsonSchema, .text = R"({"type": "null"})"},
      {.kind = Kind::kRegex, .text = "a+"},
      {.kind = Kind::kChoice, .choices = {"yes", "", "no"}},
      {.kind = Kind::kGbnf, .text = "root ::= \"a\""},
      {.kind = Kind::kGbnf,
       .text = "root ::= a b",
       .schemas = {
           {.name = "a", .schema = "{}"},
           {.name = "b", .schema = R"({"properties": {"c": {}}})", .path = {"properties", "c"}}}}};
  for (const GrammarSource& source : sources) {
    v1::SamplingParams wire;
    ToWire(SamplingParams{.grammar = source}, &wire);
    EXPECT_TRUE(CheckSizes(wire, "sampling").ok());
    EXPECT_EQ(FromWire(wire).grammar, source);
  }
  v1::SamplingParams wire;
  EXPECT_FALSE(FromWire(wire).grammar.has_value());
  wire.mutable_structured_output();
  EXPECT_FALSE(FromWire(wire).grammar.has_value()) << "no format";
  wire.mutable_structured_output()->set_json_object(false);
  EXPECT_FALSE(FromWire(wire).grammar.has_value());
}

TEST(ValuesWire, RefusesSchemasWithoutGbnf) {
  v1::SamplingParams wire;
  wire.mutable_structured_output()->add_schemas()->set_name("a");
  for (const char* regex : {"", "a"}) {
    if (*regex != '\0') wire.mutable_structured_output()->set_regex(regex);
    const Status status = CheckSizes(wire, "sampling");
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("sampling.structured_output.schemas: "));
  }
  wire.mutable_structured_output()->set_gbnf("root ::= a");
  EXPECT_TRUE(CheckSizes(wire, "sampling").ok());
}

TEST(ValuesWire, CountsStructuredOutputsAsTheirSource) {
  const GrammarSource source{
      .kind = GrammarSource::Kind::kGbnf,
      .text = std::string(kMaxGrammarBytes - 10, 'a'),
      .schemas = {{.name = "bc", .schema = "{}", .path = {"def"}}, {.name = "g", .schema = "h"}}};
  ASSERT_EQ(source.bytes(), kMaxGrammarBytes);
  v1::SamplingParams wire;
  ToWire(SamplingParams{.grammar = source}, &wire);
  EXPECT_TRUE(CheckSizes(wire, "sampling").ok());
  wire.mutable_structured_output()->mutable_schemas(1)->add_path("");
  EXPECT_THAT(CheckSizes(wire, "sampling").message(), HasSubstr("262145 bytes, at most 262144"));
}

TEST(ValuesWire, UnsetSamplingParamsDisableTransforms) {
  const SamplingParams params = FromWire(v1::SamplingParams());
  EXPECT_EQ(params.temperature, 1.f);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 1.f);
  EXPECT_EQ(params.repetition_penalty, 1.f);
  EXPECT_FALSE(params.has_penalties());
}

TEST(ValuesWire, HugeCountsDoNotBecomeNegative) {
  v1::SamplingParams wire;
  wire.set_top_k(std::numeric_limits<uint32_t>::max());
  (*wire.mutable_logit_bias())[std::numeric_limits<uint32_t>::max()] = 1.f;
  const SamplingParams params = FromWire(wire);
  EXPECT_GT(params.top_k, 0);
  ASSERT_EQ(params.logit_bias.size(), 1u);
  EXPECT_GT(params.logit_bias[0].first, 0);
}

TEST(ValuesWire, StopRulesRoundTrip) {
  for (const StopRule::Kind kind : kAllStopKinds) {
    v1::StopRule wire;
    const float threshold = kind == StopRule::Kind::kLength ? 0.f : 0.25f;  // kLength has none
    ToWire(StopRule{.kind = kind, .threshold = threshold}, &wire);
    const Result<std::optional<StopRule>> back = FromWire(wire);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, (StopRule{.kind = kind, .threshold = threshold}));
    for (const float bad : {-1.f, 33.f, std::nanf("")}) {
      wire.set_threshold(bad);
      EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument);
    }
  }
  v1::StopRule wire;
  EXPECT_FALSE(FromWire(wire)->has_value());
  for (const float ignored : {0.5f, std::nanf("")}) {  // without a kind
    wire.set_threshold(ignored);
    EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument) << ignored;
  }
  wire.set_kind(static_cast<v1::StopRule::Kind>(77));
  EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument);
}

// 3 was greedy-block's number.
TEST(ValuesWire, RefusesNumbersOfNoRule) {
  for (const int number : {3, 99}) {
    const auto rule = FromWire(static_cast<v1::SpeculationOptions::Rule>(number));
    EXPECT_EQ(rule.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(rule.status().message(), HasSubstr(std::to_string(number)));
  }
}

TEST(ValuesWire, KnowsEveryRuleByName) {
  const auto* wire = google::protobuf::GetEnumDescriptor<v1::SpeculationOptions::Rule>();
  EXPECT_EQ(static_cast<size_t>(wire->value_count()), std::size(kRuleTraits) + 1);  // RULE_DEFAULT
  for (const auto& [rule, name, many_paths] : kRuleTraits) {
    EXPECT_EQ(FromWire(ToWire(rule)).value(), rule);
    std::string wire_name = "RULE_";
    for (const char c : name) wire_name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    EXPECT_EQ(v1::SpeculationOptions::Rule_Name(ToWire(rule)), wire_name);
  }
}

}  // namespace
}  // namespace outrider
