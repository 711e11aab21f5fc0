// Which bytes of a rendered text came from the request.

#include <gtest/gtest.h>

#include <string>

#include "tests/common/text/jinja/rendering.h"

namespace outrider::jinja {
namespace {

// The text with ⟦..⟧ around the parts that came from the request.
std::string Marked(std::string_view source, const std::string& user) {
  const Result<MarkedText> text = testing::Render(source, user);
  EXPECT_TRUE(text.ok()) << source << ": " << text.status().ToString();
  std::string out;
  if (!text.ok()) return out;
  text->ForEachPart([&](std::string_view part, bool from_request) {
    out += from_request ? "⟦" + std::string(part) + "⟧" : std::string(part);
  });
  return out;
}

struct Case {
  const char* source;
  const char* marked;
};

TEST(Marks, FollowTheTextsOfTheRequest) {
  const Case kCases[] = {
      {"a{{ user }}b", "a⟦ x-y ⟧b"},
      {"{{ '<' + user ~ '>' }}", "<⟦ x-y ⟧>"},
      {"{{ user.strip() }}", "⟦x-y⟧"},
      {"{{ ('<' ~ user ~ '>')[1:4] }}", "⟦ x-⟧"},
      {"{{ ('<' ~ user ~ '>')[::-1] }}", ">⟦ y-x ⟧<"},
      {"{{ ('a,' ~ user).split(',')[1] ~ '!' }}", "⟦ x-y ⟧!"},
      {"{{ user.split('-') | join('+') }}", "⟦ x⟧+⟦y ⟧"},
      {"{{ '-'.join([user, 'b']) }}", "⟦ x-y ⟧-b"},
      {"{{ user.replace('-', '<br>') }}", "⟦ x⟧<br>⟦y ⟧"},
      {"{{ 'a*b' | replace('*', user) }}", "a⟦ x-y ⟧b"},
      {"{{ nope | default(user) }}", "⟦ x-y ⟧"},
      {"{{ {'k': [user]} | tojson }}", R"({"k": ["⟦ x-y ⟧"]})"},
      {"{{ [user] }}", "['⟦ x-y ⟧']"},
      {"{{ '[' ~ user | upper ~ ']' }}", "[⟦ X-Y ⟧]"},
      // Changes of characters cannot be tracked within a text of mixed origin.
      {"{{ ('<' ~ user) | upper }}", "⟦< X-Y ⟧"},
      {"{{ 'a\n' ~ user | indent(1) }}", "a\n⟦ x-y ⟧"},
      {"{{ ('a\n' ~ user) | indent(1) }}", "a\n ⟦ x-y ⟧"},
      {"{{ '%s|%s' % ('a', user) }}", "a|⟦ x-y ⟧"},
      {"{{ '{}|'.format(user) }}", "⟦ x-y ⟧|"},
      {"{% set x %}[{{ user }}]{% endset %}{{ x | trim }}", "[⟦ x-y ⟧]"},
      {"{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(user) | trim }}", "[⟦ x-y ⟧]"},
      {"{% for c in user if c != ' ' %}{{ c }},{% endfor %}", "⟦x⟧,⟦-⟧,⟦y⟧,"},
      {"{{ user | list | last }}{{ user | first }}", "⟦  ⟧"},
      {"{{ user * 2 }}", "⟦ x-y  x-y ⟧"},
      {"{{ user | center(7) }}", " ⟦ x-y ⟧ "},
      {"{% filter trim %} {{ user }}{% endfilter %}", "⟦x-y⟧"},
      {"{{ (user | safe) + '<' }}", "⟦ x-y ⟧&lt;"},
      {"{{ user | length }}{{ 'x' in user }}", "5True"},
  };
  for (const Case& test : kCases)
    EXPECT_EQ(Marked(test.source, " x-y "), test.marked) << test.source;
}

}  // namespace
}  // namespace outrider::jinja
