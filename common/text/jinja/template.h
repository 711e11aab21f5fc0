// A chat template in Jinja, as in Hugging Face checkpoints: parsed once, rendered for every
// request. The language is Jinja 3.1 in the environment of transformers (trim_blocks,
// lstrip_blocks, an immutable sandbox, loop controls, tojson, raise_exception, strftime_now).
// Unsupported parts are refused, never rendered differently (docs/http.md).
//
//   OUTRIDER_ASSIGN(const auto chat, jinja::Template::Parse(source));
//   jinja::Dict variables;
//   variables.Set(jinja::Value::Text("messages"), messages);
//   OUTRIDER_ASSIGN(const jinja::MarkedText prompt, chat.Render(variables, {}));
//
// A template can only access its variables and the clock; RenderLimits bound a rendering.
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
  // kInvalidArgument "line <n>: ...": not UTF-8, too long, malformed, or an unsupported statement,
  // filter or test.
  static Result<Template> Parse(std::string_view source);

  // `variables`: names to values; one with the name of a global function hides it. Strings of the
  // request must be marked as such, and stay marked in the text.
  // kInvalidArgument "line <n>: ...": the template raises an error, Python would raise one, or a
  // limit is reached.
  Result<MarkedText> Render(const Dict& variables, const RenderLimits& limits) const;

  const Body& body() const { return program_->body; }

 private:
  explicit Template(Program program)
      : program_(std::make_shared<const Program>(std::move(program))) {}

  std::shared_ptr<const Program> program_;
};

}  // namespace outrider::jinja
