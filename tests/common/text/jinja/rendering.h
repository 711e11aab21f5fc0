// Renders a template for a test.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/template.h"

namespace outrider::jinja::testing {

// `user` is the value of the variable with this name, a string of the request.
inline Result<MarkedText> Render(std::string_view source, const std::string& user = "",
                                 const RenderLimits& limits = {}) {
  OUTRIDER_ASSIGN(const Template chat, Template::Parse(source));
  Dict variables;
  variables.Set(Value::Text("user"), Value::Text(user, /*from_request=*/true));
  return chat.Render(variables, limits);
}

// The error with which rendering fails; "" if it succeeds.
inline std::string ErrorOf(std::string_view source, const std::string& user = "",
                           const RenderLimits& limits = {}) {
  const Result<MarkedText> text = Render(source, user, limits);
  return text.ok() ? "" : text.status().message();
}

}  // namespace outrider::jinja::testing
