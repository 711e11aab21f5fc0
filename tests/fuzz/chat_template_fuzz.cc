// Any chat template is rejected with its line, or renders within its limits. The text is
// well-formed UTF-8, and what comes from the request is marked as such.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/template.h"
#include "common/text/utf8.h"
#include "tests/fuzz/fuzz_input.h"

namespace outrider::fuzz {
namespace {

using jinja::Value;

constexpr std::string_view kForeign = "\u2603snow";  // in no template of the corpus

Value Message(const std::string& role, std::string content) {
  jinja::Dict dict;
  dict.Set(Value::Text("role"), Value::Text(role));
  dict.Set(Value::Text("content"), Value::Text(std::move(content), /*from_request=*/true));
  return jinja::NewDict(std::move(dict)).value();
}

jinja::Dict Variables() {
  const std::string foreign(kForeign);
  jinja::Dict out;
  out.Set(Value::Text("messages"),
          jinja::NewList({Message("system", foreign), Message("user", " a\n" + foreign + ", b "),
                          Message("assistant", "")})
              .value());
  out.Set(Value::Text("n"), Value::Int(3));
  out.Set(Value::Text("f"), Value::Float(-2.5));
  out.Set(Value::Text("add_generation_prompt"), Value::Bool(true));
  return out;
}

// Whether every kForeign is within marked bytes.
bool IsMarked(const jinja::MarkedText& text) {
  std::string marked;  // a copy in which unmarked bytes are blank
  text.ForEachPart([&](std::string_view part, bool from_request) {
    marked += from_request ? std::string(part) : std::string(part.size(), ' ');
  });
  for (size_t pos = text.text().find(kForeign); pos != std::string::npos;
       pos = text.text().find(kForeign, pos + 1)) {
    if (marked.compare(pos, kForeign.size(), kForeign) != 0) return false;
  }
  return true;
}

void Check(std::string_view source) {
  const auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) {
    Require(!parsed.status().message().empty());
    return;
  }
  const jinja::RenderLimits limits{
      .steps = 20'000, .value_bytes = 1 << 20, .output_bytes = 1 << 16, .now = 1};
  const auto text = parsed->Render(Variables(), limits);
  if (!text.ok()) {
    Require(text.status().message().starts_with("line "));
    return;
  }
  Require(text->size() <= limits.output_bytes);
  Require(!FindInvalidUtf8(text->text()).has_value());
  Require(source.find(kForeign.substr(0, 3)) != source.npos || IsMarked(*text));
}

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
