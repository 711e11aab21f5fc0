// Integers beyond 64 bits, which only requests have. The expected texts are Python's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "common/text/jinja/template.h"

namespace outrider::jinja {
namespace {

using ::testing::HasSubstr;

constexpr char kDigits[] = "123456789012345678901";

// The text, or the error. `n` and `same` are kDigits, `other` differs in its last digit.
std::string Rendered(std::string_view expression) {
  const Result<Template> parsed = Template::Parse("{{ " + std::string(expression) + " }}");
  if (!parsed.ok()) return parsed.status().message();
  Dict variables;
  variables.Set(Value::Text("n"), Value::LongInt(kDigits));
  variables.Set(Value::Text("same"), Value::LongInt(kDigits));
  variables.Set(Value::Text("other"), Value::LongInt("123456789012345678902"));
  const Result<MarkedText> text = parsed->Render(variables, {});
  return text.ok() ? text->text() : text.status().message();
}

TEST(LongIntegers, ArePrinted) {
  for (const char* expression :
       {"n", "n | string", "n | tojson", "n | int", "'%s' % n", "'' ~ n", "n if n else 'false'"}) {
    EXPECT_EQ(Rendered(expression), kDigits) << expression;
  }
  EXPECT_EQ(Rendered("[n, {'a': n}] | tojson"),
            "[123456789012345678901, {\"a\": 123456789012345678901}]");
  EXPECT_EQ(Rendered("[n]"), "[123456789012345678901]");
  EXPECT_EQ(Rendered("{n: 1} | tojson"), "{\"123456789012345678901\": 1}");
  EXPECT_EQ(Rendered("n | float"), "1.2345678901234568e+20");
}

TEST(LongIntegers, AreIntegersToTests) {
  EXPECT_EQ(Rendered("[n is integer, n is number, n is defined, n is string, n is float, n is "
                     "mapping, n is sequence, n is boolean]"),
            "[True, True, True, False, False, False, False, False]");
  EXPECT_EQ(Rendered("[n == same, n == other, n == 1, n == '1', {n: 2}[same]]"),
            "[True, False, False, False, 2]");
}

TEST(LongIntegers, AreNotComputedWith) {
  for (const char* expression : {"n + 1", "n * 2.0", "n < 1", "n // 10"}) {
    EXPECT_THAT(Rendered(expression), HasSubstr("between int beyond 64 bits and")) << expression;
  }
  EXPECT_THAT(Rendered("-n"), HasSubstr("int beyond 64 bits"));
}

}  // namespace
}  // namespace outrider::jinja
