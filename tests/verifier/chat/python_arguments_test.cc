#include "verifier/chat/python_arguments.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace outrider {
namespace {

TEST(PythonArguments, BecomeJson) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "{}"},
      {" a = 1 , b=-2.5e3,", R"({"a": 1, "b": -2.5e3})"},
      {"a=.5, b=1., c=+3, d=0", R"({"a": 0.5, "b": 1.0, "c": 3, "d": 0})"},
      {R"(a='it\'s', b="\"x\"\n", c='\x41\u00e9\U0001f600\q\\')",
       "{\"a\": \"it's\", \"b\": \"\\\"x\\\"\\n\", \"c\": \"Aé😀\\\\q\\\\\"}"},
      {"a=True, b=False, c=None, d=true, e=null",
       R"({"a": true, "b": false, "c": null, "d": true, "e": null})"},
      {"a=[1, 'x', []], b=(1, 2,), c={'k': {\"l\": [0]}}",
       R"({"a": [1, "x", []], "b": [1, 2], "c": {"k": {"l": [0]}}})"},
      {"a='line\nnext'", R"({"a": "line\nnext"})"},
  };
  for (const auto& [python, json] : cases) {
    EXPECT_EQ(JsonOfPythonArguments(python), json) << python;
  }
}

TEST(PythonArguments, OthersAreRefused) {
  for (const std::string text :
       {"1",        "a",    "a=",      "a=b",  "a=1 b=2",      "a=f()",
        "a=1, a=2", "1a=1", "a='x",    "a=[1", "a={1: 2}",     "a=01",
        "a=1e",     "a=-",  "a=1.2.3", "a=1x", "a='\\x4'",     "a='\\ud800'",
        "a=1,,",    ",",    "a={'k'}", "**a",  "a=\"b\"\"c\"", "a=1+2"}) {
    EXPECT_EQ(JsonOfPythonArguments(text), std::nullopt) << text;
  }
  const std::string deep = "a=" + std::string(33, '[') + std::string(33, ']');
  EXPECT_EQ(JsonOfPythonArguments(deep), std::nullopt);
  EXPECT_TRUE(JsonOfPythonArguments("a=" + deep.substr(3, 64)).has_value());
}

}  // namespace
}  // namespace outrider
