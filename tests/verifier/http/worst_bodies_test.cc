// The worst known bodies, of the maximum size: their cost is linear in their size, and none takes
// more memory than a body may.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/allocation_watch.h"
#include "tests/support/cpu_seconds.h"
#include "tests/verifier/http/api_request_fixture.h"

namespace outrider {
namespace {

constexpr size_t kMaxBody = 8 << 20;
// In addition to the body itself. The worst case is one number of 8 MiB, of which the JSON library
// has five copies at a time; values take half of this.
constexpr int64_t kMaxMemory = 96 << 20;

struct Shape {
  const char* name;
  const char* begin;
  const char* item;  // repeated to fill the body; # becomes a number
  const char* end;
};
constexpr Shape kShapes[] = {
    {"objects", R"({"prompt":"a","x":[{})", ",{}", "]}"},
    {"arrays", R"({"prompt":"a","x":[[])", ",[]", "]}"},
    {"objects in objects", R"({"prompt":"a","x":[{})", R"(,{"a":{"b":{}}})", "]}"},
    {"numbers", R"({"prompt":"a","x":[0)", ",0", "]}"},
    {"long numbers", R"({"prompt":"a","x":[0)", ",1.2345678901234567e-300", "]}"},
    {"one long integer", R"({"prompt":"a","x":1)", "1", "}"},
    {"one long fraction", R"({"prompt":"a","x":0.1)", "1", "}"},
    {"white space", R"({"prompt":"a","x":)", " ", "0}"},
    {"strings", R"({"prompt":"a","x":[0)", R"(,"")", "]}"},
    {"members", R"({"prompt":"a","x":{"":0)", R"(,"#":0)", "}}"},
    {"fields", R"({"prompt":"a")", R"(,"#":0)", "}"},
    {"one field, often", R"({"prompt":"a")", R"(,"prompt":"a")", "}"},
    {"escapes", R"({"prompt":"a","x":")", R"(\u0041)", R"("})"},
    {"ids", R"({"prompt":[0)", ",0", "]}"},
    {"prompts", R"({"prompt":["a")", R"(,"a")", "]}"},
    {"stop ids", R"({"prompt":"a","stop_token_ids":[0)", ",0", "]}"},
    {"stops", R"({"prompt":"a","stop":["a")", R"(,"a")", "]}"},
    {"biases", R"({"prompt":"a","logit_bias":{"a":0)", R"(,"#":0)", "}}"},
    {"messages", R"({"messages":[{"role":"user","content":"a"})",
     R"(,{"role":"user","content":"a"})", "]}"},
    {"parts", R"({"messages":[{"role":"user","content":[{"text":"a"})", R"(,{"text":"a"})", "]}]}"},
    {"calls of messages", R"({"messages":[{"role":"user","content":"a"})",
     R"(,{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}],"content":)"
     R"("long enough for as many as a body of this test may hold, which have a limit of their own"})",
     "]}"},
    {"arguments",
     R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
     R"("arguments":"{\"a\":[0)",
     ",[]", R"(]}"}}]}]})"},
    {"numbers in arguments",
     R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
     R"("arguments":"{\"a\":[0)",
     ",1", R"(]}"}}]}]})"},
    {"tools",
     R"({"messages":[{"role":"user","content":"a"}],"tools":[)"
     R"({"type":"function","function":{"name":"f"}})",
     R"(,{"type":"function","function":{"name":"f#"}})", "]}"},
    {"choices", R"({"prompt":"a","guided_choice":["a")", R"(,"#")", "]}"},
    {"members of a schema", R"({"prompt":"a","guided_json":{"properties":{"a":true)",
     R"(,"#":true)", "}}}"},
    {"groups of an expression", R"({"prompt":"a","guided_regex":"a)", "(b|c)*", R"("})"},
    {"rules of a grammar", R"({"prompt":"a","guided_grammar":"root ::= \"a\")", R"( \"b\")",
     R"("})"},
    {"parameters",
     R"({"messages":[{"role":"user","content":"a"}],"tools":[)"
     R"({"type":"function","function":{"name":"f","parameters":{"a":0)",
     R"(,"#":[])", "}}}]}"},
};

std::string BodyOf(const Shape& shape, size_t size) {
  const std::string item = shape.item, end = shape.end;
  const size_t mark = item.find('#');
  std::string body = shape.begin;
  for (int i = 0;; ++i) {
    std::string next = item;
    if (mark != std::string::npos) next.replace(mark, 1, std::to_string(i));
    if (body.size() + next.size() + end.size() > size) return body + end;
    body += next;
  }
}

class WorstBodies : public ApiModelTest {
 protected:
  WorstBodies() {
    model_.answer_format = {.tools = ToolFormat::kHermes};
    model_.limits.max_context = model_.limits.kv_tokens = 1 << 17;
    model_.ignore_unknown = true;  // so that nothing is rejected before it has been read completely
  }

  void Parse(const std::string& body) const {
    if (body.starts_with(R"({"messages")")) {
      (void)ParseChat(body, model_);
    } else {
      (void)ParseCompletion(body, model_);
    }
  }

  double SecondsOf(const std::string& body) const {
    return LeastCpuSeconds([&] { Parse(body); });
  }
};

// A body of 8 times the size may take 8 times as long, with a factor of five for caches, which
// other programs use too; a parser that walks an array at each of its items takes 64 times as long.
TEST_F(WorstBodies, CostIsLinearInBytes) {
  constexpr size_t kSmall = 64 << 10, kLarge = 8 * kSmall;
  constexpr double kMostRatio = 5 * 8;
  for (const Shape& shape : kShapes) {
    const double small = SecondsOf(BodyOf(shape, kSmall));
    const double large = SecondsOf(BodyOf(shape, kLarge));
    EXPECT_LT(large, kMostRatio * small) << shape.name << ": " << small << " s and " << large;
  }
}

TEST_F(WorstBodies, MemoryStaysWithinBodyLimit) {
  for (const Shape& shape : kShapes) {
    Parse(BodyOf(shape, 4096));  // makes allocations that happen once and are kept
    const std::string body = BodyOf(shape, kMaxBody);
    const testing::AllocationWatch watch;
    Parse(body);
    EXPECT_LT(watch.peak(), kMaxMemory) << shape.name;
    EXPECT_EQ(watch.held(), 0) << shape.name;
  }
}

}  // namespace
}  // namespace outrider
