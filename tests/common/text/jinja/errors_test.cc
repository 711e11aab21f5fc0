#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/text/jinja/rendering.h"

namespace outrider::jinja {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct BadTemplate {
  const char* source;
  const char* line;
  const char* words;
};

TEST(Errors, NameTheLineAndTheConstruct) {
  const BadTemplate kBad[] = {
      // Found during parsing.
      {"a\n{{ x | foo }}", "line 2: ", "filter 'foo' is not known"},
      {"\n\n{{ x is foo }}", "line 3: ", "test 'foo' is not known"},
      {"{% include 'x' %}", "line 1: ", "'{% include %}' is not supported"},
      {"a\n{% if x %}\nb", "line 2: ", "'{% if %}' is not closed"},
      {"a\n{% endfor %}", "line 2: ", "'{% endfor %}' is not supported, or out of place"},
      {"{{ x\n+ }}", "line 2: ", "unexpected '}}', expected an expression"},
      {"\n{{ (1 }}", "line 2: ", "unexpected '}', expected ')'"},
      {"\n{# x", "line 2: ", "a comment is not closed"},
      {"{{ 'x }}", "line 1: ", "a string is not closed"},
      {"{{ 9223372036854775808 }}", "line 1: ", "9223372036854775808 does not fit in 64 bits"},
      {"{{ x.encode('utf-8', errors=) }}", "line 1: ", "unexpected ')'"},
      {"{% break %}", "line 1: ", "'{% break %}' is outside of a loop"},
      {"{% for x in y %}{% set loop = 1 %}{% endfor %}", "line 1: ", "'loop'"},
      // Found during rendering.
      {"\n{{ nope.name }}", "line 2: ", "'nope' is undefined"},
      {"\n\n{{ 'a' +\n 1 }}", "line 3: ", "'+' is not defined between str and int"},
      {"\n{% for m in [1] %}\n{{ raise_exception('no ' ~ m) }}{% endfor %}",
       "line 3: ", "the chat template refuses: no 1"},
      {"{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n{{ m() }}", "line 2: ", "division by zero"},
      {"{{ [1].append(2) }}", "line 1: ", "'append' would change a list"},
      {"{{ 'a'.encode() }}", "line 1: ", "'encode' of a str is not supported"},
      {"{{ 'a' | join(1, 2, 3) }}", "line 1: ", "filter 'join': takes 2 arguments at most"},
      {"{{ 'a' | trim(zz=1) }}", "line 1: ", "filter 'trim': there is no argument 'zz'"},
      {"{{ 9223372036854775807 + 1 }}", "line 1: ", "'+' does not fit in 64 bits"},
      {"{{ 2 ** 63 }}", "line 1: ", "'**' does not fit in 64 bits"},
      {"{{ cycler }}", "line 1: ", "'cycler' of Jinja is not supported"},
      {"{{ user | safe | upper }}", "line 1: ", "filter 'upper': the string was made by 'safe'"},
      {"{% if user is string %}\n{{ user | foo }}{% endif %}", "line 2: ", "filter 'foo'"},
  };
  for (const BadTemplate& bad : kBad) {
    EXPECT_THAT(testing::ErrorOf(bad.source), AllOf(StartsWith(bad.line), HasSubstr(bad.words)))
        << bad.source;
  }
}

TEST(Errors, RefusesTemplatesThatAreNotText) {
  EXPECT_THAT(Template::Parse("a\xFF").status().message(), HasSubstr("not UTF-8 at byte 1"));
}

}  // namespace
}  // namespace outrider::jinja
