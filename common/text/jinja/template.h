// A chat template in Jinja, as Hugging Face checkpoints bring it: parsed once, rendered for every
// request. The language is Jinja 3.1 in the environment that transformers sets up (trim_blocks,
// lstrip_blocks, an immutable sandbox, loop controls, tojson, raise_exception, strftime_now); what
// of it is not supported is refused, never rendered in another way (docs/http.md).
//
//   OUTRIDER_ASSIGN(const auto chat, jinja::Template::Parse(source));
//   jinja::Dict variables;
//   variables.Set(jinja::Value::Text("messages"), messages);
//   OUTRIDER_ASSIGN(const jinja::MarkedText prompt, chat.Render(variables, {}));
//
// A template reaches nothing but its variables and the clock; a rendering has the limits of
// RenderLimits.
//
// Thread: any (immutable).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

// The longest template of a published model has some 20 KB.
inline constexpr size_t kMaxTemplateBytes = 1 << 20;

class Template {
 public:
  // kInvalidArgument "line <n>: ...": not UTF-8, too long, malformed, or a statement, filter or
  // test that is not supported.
  static Result<Template> Parse(std::string_view source);

  // `variables`: names to values; a name of a global function hides it. Strings of the request must
  // be marked as such, and stay marked in the text.
  // kInvalidArgument "line <n>: ...": what the template raises, what Python would raise an error
  // for, or a limit.
  Result<MarkedText> Render(const Dict& variables, const RenderLimits& limits) const;

  const Body& body() const { return program_->body; }

 private:
  explicit Template(Program program)
      : program_(std::make_shared<const Program>(std::move(program))) {}

  std::shared_ptr<const Program> program_;
};

}  // namespace outrider::jinja
