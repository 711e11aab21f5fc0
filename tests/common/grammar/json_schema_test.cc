#include "common/grammar/json_schema.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/common/grammar/grammar_testing.h"

namespace outrider::grammar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  std::string schema;
  std::vector<std::string> in;
  std::vector<std::string> out;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, each.schema);
    ASSERT_NE(grammar, nullptr);
    for (const auto& text : each.in)
      EXPECT_TRUE(Accepts(grammar, text)) << each.schema << "\n" << text;
    for (const auto& text : each.out) {
      EXPECT_FALSE(Accepts(grammar, text)) << each.schema << "\n" << text;
    }
  }
}

TEST(JsonObject, IsAnyObject) {
  const auto grammar = Grammar::Compile({}).value();
  EXPECT_TRUE(Accepts(grammar, R"({})"));
  EXPECT_TRUE(Accepts(grammar, R"({"a": [1,-2.5e+10, {"b":null}],"\u00e9\n\ud83d\ude00":true})"));
  for (const char* text : {"[]", "{} ", "{ }", R"({"a":01})", R"({"a":1,})", R"({"a" :1})",
                           R"({"\ud83d":1})", R"({"\ude00":1})", "{\"\t\":1}", R"({"a":1.})"}) {
    EXPECT_FALSE(Accepts(grammar, text)) << text;
  }
}

TEST(JsonSchema, Types) {
  Check({
      {R"({"type":"null"})", {"null"}, {"0", ""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null"}},
      {R"({"type":"integer"})", {"0", "-12", "90"}, {"-0", "01", "1.0", "1e2"}},
      {R"({"type":"number"})", {"-0.5", "1e10", "3"}, {".5", "1e999", "+1"}},
      {R"({"type":"string"})", {R"("")", R"("a\"\u00e9é")"}, {R"(")", "\"\n\"", R"("\x")"}},
      {R"({"type":["integer","null"]})", {"1", "null"}, {"true"}},
      {R"({"type":"array"})", {"[]", "[1, \"a\",[]]"}, {"[1,]", "[ ]", "{}"}},
      {R"({})", {"1", "{\"a\":[]}"}, {""}},
      {R"({"enum":["a\n",1,null,{"x":[1,2],"b":{}}]})",
       {R"("a\n")", "1", "null", R"({"x": [1, 2],"b":{}})"},
       {R"("a")", R"({"b":{},"x":[1,2]})"}},
      {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
      {R"({"type":"integer","enum":[1.0,2,2.5]})", {"1", "2"}, {"1.0", "2.5"}},
      {R"({"type":["integer","string"],"const":3.0})", {"3"}, {"3.0"}},
      {R"({"type":"number","const":3.0})", {"3.0"}, {"3"}},
      {R"({"const":-1.5})", {"-1.5"}, {"1.5"}},
  });
}

// A name of 255 bytes with its lengths on the wire has at most 253 as text.
TEST(JsonSchema, HostNamesHaveAtMost253Bytes) {
  const auto named = [](size_t label) {
    const std::string part(label, 'a');
    return "\"" + part + "." + part + "." + part + "." + part + "\"";
  };
  Check({{R"({"type":"string","format":"hostname"})",
          {R"("a")", R"("c-d.org")", named(62)},
          {R"("")", R"("-a")", R"("a.")", named(63)}}});
}

TEST(JsonSchema, Objects) {
  const std::string two = R"("properties":{"a":{"type":"integer"},"b":{"type":"null"}})";
  Check({
      {"{" + two + R"(,"required":["a","b"],"additionalProperties":false})",
       {R"({"a":1,"b":null})", R"({"a": 1, "b": null})"},
       {R"({"b":null,"a":1})", R"({"a":1})", "{}", R"({"a":1,"b":null,"c":1})", R"({"a":1, })"}},
      {"{" + two + "}",
       {"{}", R"({"a":1})", R"({"b":null})", R"({"a":1,"b":null})"},
       {R"({,"b":null})", R"({"a":1,})", R"({"c":1})"}},
      {"{" + two + R"(,"required":["b"]})",
       {R"({"b":null})", R"({"a":1,"b":null})"},
       {"{}", R"({"a":1})"}},
      {"{" + two + R"(,"required":["a"],"additionalProperties":{"type":"boolean"}})",
       {R"({"a":1})", R"({"a":1,"c":true})", R"({"a":1,"b":null,"":true,"aa":false})"},
       {R"({"a":1,"c":1})", R"({"c":true})", R"({"a":1,"a":true})", R"({"a":1,"\u0062":true})",
        R"({"a":1,"b":true})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})",
       {"{}", R"({"x":1,"\u0061":2})"},
       {R"({"x":true})"}},
      {R"({"type":"object","required":["x"]})", {R"({"x":[]})", R"({"x":1,"y":2})"}, {"{}"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"properties":{"q\"\\":true,"no":false}})", {R"({"q\"\\":1})", "{}"}, {R"({"no":1})"}},
  });
}

TEST(JsonSchema, Arrays) {
  Check({
      {R"({"items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1, 2,3]"},
       {"[]", "[1,2,3,4]", "[true]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"null"}]})",
       {"[]", "[1]", "[1,null]"},
       {"[null]", "[1,null,1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"null"}],"items":{"type":"boolean"},"minItems":2,"maxItems":4})",
       {"[1,null]", "[1,null,true,false]"},
       {"[1]", "[1,null,1]", "[1,null,true,true,true]"}},
      {R"({"prefixItems":[{"type":"integer"}],"items":false,"minItems":1})",
       {"[1]"},
       {"[]", "[1,1]"}},
      {R"({"items":{"type":"integer"},"minItems":200,"maxItems":300})", {}, {"[1]"}},
  });
  std::string list = "[0";
  for (int i = 1; i < 300; ++i) list += ", 7";
  Check({{R"({"items":{"type":"integer"},"minItems":200,"maxItems":300})",
          {list + "]"},
          {list + ",1]"}}});
}

TEST(JsonSchema, Strings) {
  const std::string long_text(500, 'x');
  Check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("é\n\ud83d\ude00")"},
       {R"("a")", R"("abcd")", R"("")"}},
      {R"({"type":"string","maxLength":500})",
       {"\"" + long_text + "\"", "\"\""},
       {"\"" + long_text + "x\""}},
      {R"({"type":"string","pattern":"^a.c$"})",
       {R"("abc")", R"("a\"c")", R"("a\\c")"},
       {R"("xabc")", R"("a\nc")"}},
      {R"({"type":"string","pattern":"b+"})", {R"("abc")", R"("b")"}, {R"("ac")"}},
      {R"({"type":"string","pattern":"^[\\x00-\\x1f]$"})",
       {R"("\n")", R"("\u0001")"},
       {"\"\n\"", R"("a")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")"},
       {R"("2023-02-29")", R"("2024-13-01")", R"("1900-02-29")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-01-31T23:59:59.5+01:00")"},
       {R"("2024-01-31 23:59:59Z")"}},
      {R"({"type":"string","format":"time"})", {R"("00:00:00Z")"}, {R"("24:00:00Z")"}},
      {R"({"type":"string","format":"uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567")"}},
      {R"({"type":"string","format":"email"})", {R"("a.b@c-d.org")"}, {R"("a@")", R"("a@-b")"}},
      {R"({"type":"string","format":"ipv4"})",
       {R"("255.0.10.1")"},
       {R"("256.1.1.1")", R"("1.1.1")"}},
      {R"({"type":"string","format":"duration"})",
       {R"("P1DT2H")", R"("PT5S")"},
       {R"("P")", R"("PT")"}},
  });
}

// Every integer near the bounds, compared with the arithmetic.
TEST(JsonSchema, IntegerBoundsAreExact) {
  const std::vector<int64_t> bounds = {-1001, -100, -99, -10, -1, 0, 1, 7, 10, 99, 100, 1234};
  for (const int64_t low : bounds) {
    for (const int64_t high : bounds) {
      if (high < low) continue;
      const GrammarPtr grammar = Compiled(
          Kind::kJsonSchema, R"({"type":"integer","minimum":)" + std::to_string(low) +
                                 R"(,"exclusiveMaximum":)" + std::to_string(high + 1) + "}");
      for (int64_t value = -1300; value <= 1300; ++value) {
        ASSERT_EQ(Accepts(grammar, std::to_string(value)), value >= low && value <= high)
            << value << " in " << low << ".." << high;
      }
      ASSERT_FALSE(Accepts(grammar, "-0"));
      ASSERT_FALSE(Accepts(grammar, "00"));
    }
  }
  Check({
      {R"({"type":"integer","minimum":1.5,"exclusiveMaximum":3.5})", {"2", "3"}, {"1", "4"}},
      {R"({"type":"integer","exclusiveMinimum":9})", {"10", "123456789012345678901"}, {"9", "-10"}},
      {R"({"type":"integer","maximum":-5})", {"-5", "-1000000"}, {"-4", "0"}},
      {R"({"type":"integer","minimum":4611686018427387904})",
       {"4611686018427387904"},
       {"4611686018427387903"}},
  });
}

TEST(JsonSchema, NumberBounds) {
  for (const int low : {-12, -1, 0, 1, 9}) {
    for (const int high : {-11, 0, 1, 10}) {
      if (high < low) continue;
      for (const bool open : {false, true}) {
        if (open && low == high) continue;
        const std::string bound = open ? "exclusive" : "";
        const GrammarPtr grammar =
            Compiled(Kind::kJsonSchema, R"({"type":"number",")" +
                                            (open ? "exclusiveMinimum" : std::string("minimum")) +
                                            "\":" + std::to_string(low) + ",\"" +
                                            (open ? "exclusiveMaximum" : std::string("maximum")) +
                                            "\":" + std::to_string(high) + "}");
        for (int tenths = -140; tenths <= 140; ++tenths) {
          const int whole = tenths / 10, part = std::abs(tenths % 10);
          std::string text = std::to_string(std::abs(whole)) + "." + std::to_string(part);
          if (tenths < 0) text = "-" + text;
          const bool in = open ? tenths > 10 * low && tenths < 10 * high
                               : tenths >= 10 * low && tenths <= 10 * high;
          ASSERT_EQ(Accepts(grammar, text), in) << text << " in " << low << ".." << high << open;
        }
      }
    }
  }
}

// Every value near the bounds, in hundredths, compared with the arithmetic.
TEST(JsonSchema, NumberBoundsMayHaveFractions) {
  const auto text_of = [](int hundredths) {
    std::string text = std::to_string(std::abs(hundredths));
    if (text.size() < 3) text.insert(0, 3 - text.size(), '0');
    return (hundredths < 0 ? "-" : "") + text.insert(text.size() - 2, ".");
  };
  for (const int low : {-1234, -150, -105, -7, 0, 5, 50, 99, 250}) {
    for (const int high : {-1230, -105, -1, 0, 5, 70, 101, 1001}) {
      if (high < low) continue;
      for (const bool open : {false, true}) {
        if (open && low == high) continue;
        const std::string prefix = open ? R"("exclusiveM)" : R"("m)";
        const GrammarPtr grammar = Compiled(
            Kind::kJsonSchema, R"({"type":"number",)" + prefix + R"(inimum":)" + text_of(low) +
                                   "," + prefix + R"(aximum":)" + text_of(high) + "}");
        for (int value = -1300; value <= 1300; ++value) {
          const bool in = open ? value > low && value < high : value >= low && value <= high;
          if (value == 0 && low < 0) continue;  // 0.00 has two signs
          ASSERT_EQ(Accepts(grammar, text_of(value)), in) << value << " in " << low << ".." << high;
        }
      }
    }
  }
  Check({
      {R"({"type":"number","minimum":0.1})",
       {"0.1", "0.100", "0.11", "1", "12.0"},
       {"0", "0.09999", "-1", "0.0"}},
      {R"({"type":"number","exclusiveMinimum":0.1})", {"0.1001", "0.2"}, {"0.1", "0.10"}},
      {R"({"type":"number","maximum":-2.5})",
       {"-2.5", "-2.50", "-3", "-2.51", "-10"},
       {"-2.49", "-2", "0"}},
      {R"({"type":"number","exclusiveMaximum":1e-3})", {"0.0009", "0", "-5"}, {"0.001", "1"}},
      {R"({"type":"number","minimum":0.5,"exclusiveMinimum":0.5,"maximum":2})",
       {"0.6", "2", "2.0"},
       {"0.5", "2.1"}},
      {R"({"type":"number","minimum":1.5e3})", {"1500", "1500.1", "20000"}, {"1499.9"}},
  });
}

TEST(JsonSchema, MultiplesAreExact) {
  for (const int divisor : {1, 2, 3, 7, 10, 64, 100}) {
    const std::string multiple = R"("multipleOf":)" + std::to_string(divisor);
    const GrammarPtr all = Compiled(Kind::kJsonSchema, R"({"type":"integer",)" + multiple + "}");
    const GrammarPtr some = Compiled(
        Kind::kJsonSchema, R"({"type":"integer","minimum":-150,"maximum":233,)" + multiple + "}");
    for (int value = -400; value <= 400; ++value) {
      const std::string text = std::to_string(value);
      ASSERT_EQ(Accepts(all, text), value % divisor == 0) << value << " of " << divisor;
      ASSERT_EQ(Accepts(some, text), value % divisor == 0 && value >= -150 && value <= 233)
          << value;
    }
    EXPECT_FALSE(Accepts(all, "-0"));
    EXPECT_FALSE(Accepts(all, "00"));
  }
  Check({
      {R"({"type":"number","multipleOf":0.01})",
       {"0", "0.5", "12.34", "-0.07", "3.0"},
       {"0.001", "1.", "1.000", "1e2"}},
      {R"({"type":"number","multipleOf":0.25})",
       {"0.25", "0.5", "1.75", "-3", "7.50"},
       {"0.1", "0.3", "1.55"}},
      {R"({"type":"number","multipleOf":1.5})", {"1.5", "3", "-4.5", "3.0"}, {"1", "2", "2.5"}},
      {R"({"type":"number","multipleOf":5})", {"0", "15", "-20"}, {"7", "5.0"}},
      {R"({"type":"integer","multipleOf":2.5})", {"5", "-10", "0"}, {"2", "3"}},
      {R"({"type":"number","multipleOf":0.05,"exclusiveMinimum":0,"maximum":1.1})",
       {"0.05", "1.1", "1"},
       {"0", "0.0", "1.15", "0.01"}},
      {R"({"multipleOf":1000,"type":"integer"})", {"0", "-17000"}, {"500", "1001"}},
  });
}

TEST(JsonSchema, LengthsBesidePatterns) {
  const std::string long_text(5000, 'x');
  Check({
      {R"({"type":"string","pattern":"^[a-zé]+$","minLength":2,"maxLength":3})",
       {R"("ab")", R"("éab")"},
       {R"("a")", R"("abcd")", R"("AB")"}},
      {R"({"type":"string","pattern":"^[a-z]{3,9}$","maxLength":5})",
       {R"("abc")", R"("abcde")"},
       {R"("ab")", R"("abcdef")"}},
      {R"({"type":"string","pattern":"^(ab|c)*d$","minLength":3,"maxLength":4})",
       {R"("abd")", R"("cabd")", R"("ccd")"},
       {R"("cd")", R"("ababd")", R"("abc")"}},
      {R"({"type":"string","pattern":"x","maxLength":3})",
       {R"("x")", R"("\nx\"")", R"("éxé")"},
       {R"("abc")", R"("abcx")"}},
      {R"({"type":"string","pattern":"^[^a]*$","minLength":2})",
       {R"("\n\\")", R"("bcdefg")"},
       {R"("b")", R"("bca")"}},
      {R"({"type":"string","pattern":"^x*$","maxLength":5000})",
       {"\"" + long_text + "\""},
       {"\"" + long_text + "x\""}},
      {R"({"type":"string","format":"date","maxLength":10})",
       {R"("2024-02-29")"},
       {R"("2024-2-29")"}},
      {R"({"type":"string","format":"uri"})",
       {R"("https://a-b.example:80/x/%20y?q=1&r=(2)#top")", R"("s3://bucket")"},
       {R"("https:/a")", R"("a b://c")", R"("http://a/%2")", R"("http://-a")"}},
  });
}

TEST(JsonSchema, TypesBesideAlternatives) {
  Check({
      {R"({"type":"string","anyOf":[{"const":"a"},{"pattern":"^b+$"},{"type":["string","null"],"maxLength":1},{"type":"integer"}]})",
       {R"("a")", R"("bb")", R"("c")"},
       {"null", "1", R"("cc")"}},
      {R"({"type":["integer","null"],"anyOf":[{"type":"number","multipleOf":0.5},{"enum":[null,"x",true]}]})",
       {"3", "-2", "null"},
       {"0.5", R"("x")", "true"}},
      {R"({"type":"number","oneOf":[{"type":"integer"},{"type":"string"}]})",
       {"1"},
       {"1.5", R"("a")"}},
      {R"({"type":"object","anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"$defs":{"a":{"properties":{"x":{"type":"null"}}}}})",
       {R"({"x":null})", "{}"},
       {"null"}},
      {R"({"type":"boolean","anyOf":[true]})", {"true"}, {"1"}},
      {R"({"type":"integer","anyOf":[{"title":"t"},{"type":"string"}]})", {"1"}, {R"("a")"}},
  });
}

TEST(JsonSchema, ChoicesAndReferences) {
  Check({
      {R"({"anyOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#"}}]})",
       {"1", "[]", "[1,[2,[]]]"},
       {"[null]"}},
      {R"({"$defs":{"n":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["next"]}},"$ref":"#/$defs/n"})",
       {R"({"next":null})", R"({"next":{"next":null}})"},
       {R"({"next":{}})"}},
      {R"({"type":["object","null"],"anyOf":[{"properties":{"next":{"$ref":"#"}}},{"type":"null"}]})",
       {"null", "{}", R"({"next":{"next":null}})"},
       {"[]", R"({"next":1})"}},
      // Alternatives and allOf may refer to what contains them.
      {R"({"type":"array","items":{"type":"array","anyOf":[{"$ref":"#"}]}})",
       {"[]", "[[]]", "[[[[]],[]]]"},
       {"[1]", "[{}]"}},
      {R"({"type":"object","properties":{"a":{"type":["object","null"],"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["a"]})",
       {R"({"a":null})", R"({"a":{"a":null}})"},
       {R"({"a":{}})", R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"type":"object"}]}}})",
       {"{}", R"({"a":{"a":{}}})"},
       {R"({"a":1})", R"({"a":null})"}},
      {R"({"$defs":{"n":{"type":"object","allOf":[{"properties":{"n":{"$ref":"#/$defs/n"}}}]}},"$ref":"#/$defs/n"})",
       {"{}", R"({"n":{"n":{}}})"},
       {R"({"n":1})"}},
      {R"({"definitions":{"a/b~c":{"const":1}},"anyOf":[{"$ref":"#/definitions/a~1b~0c"},{"$ref":"#/anyOf/0"}]})",
       {"1"},
       {"2"}},
      {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"null"}},"required":["k","x"]},{"properties":{"k":{"enum":["b","c"]}},"required":["k"]}]})",
       {R"({"k":"a","x":null})", R"({"k":"c"})"},
       {R"({"k":"a"})"}},
      {R"({"oneOf":[{"const":[1,{"a":"1"}]},{"const":[1,{"a":1}]},{"const":[1,{"a":1},1]}]})",
       {R"([1,{"a":"1"}])", R"([1,{"a":1}])", R"([1,{"a":1},1])"},
       {"1"}},
      {R"({"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"type":"null"}},"required":["b"]}],"$defs":{"base":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}})",
       {R"({"a":1,"b":null})"},
       {R"({"a":1})", R"({"b":null})"}},
      {R"({"allOf":[{"type":"integer"}],"title":"t"})", {"1"}, {"true"}},
      {R"({"$id":"http://x","$ref":"#/$defs/n","$defs":{"n":{"$id":"n","const":{"$id":"m","$ref":"#"}}}})",
       {R"({"$id":"m","$ref":"#"})"},
       {"1"}},
      {R"({"properties":{"$id":{"$ref":"#/$defs/n"}},"$defs":{"n":{"$id":"#n","items":{"$ref":"#/$defs/n"}}}})",
       {R"({"$id":[[]]})"},
       {R"({"$id":1})"}},
  });
}

TEST(JsonSchema, IntegersBeyond64BitsAreExact) {
  Check({
      {R"({"type":"integer","default":123456789012345678901,"examples":[-99999999999999999999]})",
       {"1"},
       {"1.5"}},
      {R"({"enum":[123456789012345678901]})",
       {"123456789012345678901"},
       {"123456789012345678902", "123456789012345683968", "1.2345678901234568e+20"}},
      {R"({"type":"integer","const":-99999999999999999999})", {"-99999999999999999999"}, {"-1e20"}},
  });
}

TEST(JsonSchema, RefusesByNameAndPath) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"properties":{"a":{"type":"integer","multipleOf":1001}}})",
       "properties.a.multipleOf: must"},
      {R"({"type":"number","multipleOf":0})", "multipleOf is 0, must be above 0"},
      {R"({"type":"number","multipleOf":-0.5})", "multipleOf is -0.5, must be above 0"},
      {R"({"type":"number","multipleOf":1e-10})", "multipleOf: must be an integer"},
      {R"({"type":"number","multipleOf":"1"})", "multipleOf"},
      {R"({"type":"string","multipleOf":2})", "multipleOf: has no effect"},
      {R"({"type":"number","multipleOf":0.001001})", "multipleOf: must be an integer"},
      {R"({"type":"number","minimum":1e-30})", "minimum: has more than 20 digits"},
      {R"({"type":"object","patternProperties":{}})", "patternProperties"},
      {R"({"type":"object","propertyNames":{}})", "propertyNames"},
      {R"({"type":"object","minProperties":1})", "minProperties"},
      {R"({"type":"array","contains":{}})", "contains"},
      {R"({"type":"array","uniqueItems":true})", "uniqueItems"},
      {R"({"not":{}})", "not: this keyword"},
      {R"({"if":{}})", "if: this keyword"},
      {R"({"type":"object","unevaluatedProperties":false})", "unevaluatedProperties"},
      {R"({"type":"object","dependentRequired":{}})", "dependentRequired"},
      {R"({"type":"string","contentEncoding":"base64"})", "contentEncoding"},
      {R"({"type":"string","minimum":3})", "minimum: has no effect"},
      {R"({"type":"string","format":"iri"})", "format is \"iri\""},
      {R"x({"type":"string","pattern":"(?=a)"})x", "pattern: at character"},
      {R"({"type":"string","pattern":"^(ab){3000}$","minLength":2})",
       "pattern: with the length beside it takes more than 4096 states"},
      {R"({"type":"string","pattern":"a|bc","maxLength":100000})", "pattern: with the length"},
      {R"({"type":"string","pattern":"^a{3}$","maxLength":2})", "pattern: allows no text"},
      {R"({"type":"string","pattern":"^abc$","maxLength":2})", "no text matches"},
      {R"({"type":"string","pattern":"a","format":"date"})", "format: is not supported beside"},
      {R"({"type":"string","minLength":3,"maxLength":2})", "maxLength"},
      {R"({"type":"string","maxLength":1000000})", "maxLength"},
      {R"({"type":"integer","minimum":1e300})", "minimum"},
      {R"({"type":"integer","minimum":123456789012345678901})",
       "minimum is 123456789012345678901, must be an integer from"},
      {R"({"type":"number","maximum":123456789012345678901})", "maximum is 123456789012345678901"},
      {R"({"type":"integer","minimum":true})", "minimum"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "no text matches"},
      {R"({"type":"thing"})", "type is \"thing\""},
      {R"({"$ref":"http://x/y"})", "$ref"},
      {R"({"$ref":"#/$defs/none"})", "which is not there"},
      {R"({"$ref":"#/$defs/a~2","$defs":{"a":{}}})", "has a ~ that neither 0 nor 1 follows"},
      {R"({"$ref":"#/$defs/a~","$defs":{"a":{}}})", "has a ~ that neither 0 nor 1 follows"},
      {R"({"anyOf":[{"type":"null"},{"$ref":"#/anyOf/00"}]})", "#/anyOf/00, which is not there"},
      {R"({"$ref":"#"})", "no text matches"},
      {R"({"anyOf":[{"type":"null"},{"$ref":"#"}]})", "the rule # is left-recursive"},
      {R"({"$ref":"#/a","type":"string"})", "type: is not supported beside $ref"},
      {R"({"anyOf":[{"type":"null"}],"type":"string"})", "no text matches"},
      {R"({"anyOf":[{"anyOf":[{}]}],"type":"string"})",
       "type: is not supported beside alternatives that have anyOf"},
      {R"({"anyOf":[{"$ref":"#/anyOf/0"}],"type":"string"})", "refers to itself"},
      {R"({"anyOf":[{"type":"null"}],"minimum":1})", "minimum: is not supported beside anyOf"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "oneOf[1]"},
      {R"({"oneOf":[{"const":{"a":1,"b":2}},{"const":{"b":2,"a":1}}]})", "oneOf[1]: a value may"},
      {R"({"oneOf":[{"enum":[0,[1]]},{"enum":[2,[1.0]]}]})", "oneOf[1]: a value may"},
      {R"({"oneOf":[{"const":[{"x":[2,{"a":-0.0}]}]},{"const":[{"x":[2.0,{"a":0}]}]}]})",
       "oneOf[1]: a value may"},
      {R"({"oneOf":[{"properties":{"k":{"const":{"a":1,"b":2}}},"required":["k"]},{"properties":{"k":{"const":{"b":2.0,"a":1}}},"required":["k"]}]})",
       "oneOf[1]: a value may"},
      {R"({"allOf":[{"type":"string"},{"type":"string"}]})", "allOf[0].type"},
      {R"({"allOf":[{"properties":{"a":{}}},{"properties":{"a":{}}}]})", "two schemas of allOf"},
      {R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]})",
       "additionalProperties"},
      {R"({"properties":{"a":{}},"required":["b"]})", "required[0]"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text matches"},
      {R"({"type":"object","properties":null})", "properties"},
      {R"({"type":"array","uniqueItems":null})", "uniqueItems"},
      {R"({"properties":{"a":{"$id":"http://x/a","items":{"$ref":"#/$defs/b"}}},"$defs":{"b":{}}})",
       "properties.a.items[\"$ref\"]: is below a nested $id"},
      {R"({"$defs":{"$id":{"$id":"x","$ref":"#/$defs/b"},"b":{}},"$ref":"#/$defs/$id"})",
       "is below a nested $id"},
      {R"({"enum":[]})", "enum"},
      {R"({"anyOf":[]})", "anyOf"},
      {R"({"properties":{"a":false},"required":["a"]})", "false allows nothing"},
      {R"({"const":1e17})", "const: numbers beyond 9e15"},
      {R"({"type":"array","items":[{}]})", "items"},
      {R"([])", "not a JSON object"},
      {R"({"type":"null","type":"null"})", "twice"},
  };
  for (const auto& [schema, words] : cases) {
    EXPECT_THAT(Refusal(Kind::kJsonSchema, schema), HasSubstr(words)) << schema;
  }
}

}  // namespace
}  // namespace outrider::grammar
