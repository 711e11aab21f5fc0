#include "common/text/template_value.h"

#include <limits>
#include <utility>
#include <vector>

namespace outrider {

using jinja::Value;

Result<Value> TemplateValueOf(const JsonValue& json) {
  if (json.is_string()) return Value::Text(json.text(), /*from_request=*/true);
  if (json.is_bool()) {
    OUTRIDER_ASSIGN(const bool value, json.Bool());
    return Value::Bool(value);
  }
  if (json.is_int64()) {
    using Limits = std::numeric_limits<int64_t>;
    OUTRIDER_ASSIGN(const int64_t value, json.Int64(Limits::min(), Limits::max()));
    return Value::Int(value);
  }
  if (json.is_integer()) return Value::LongInt(json.Dump());
  if (json.is_number()) {
    constexpr double kMax = std::numeric_limits<double>::max();
    OUTRIDER_ASSIGN(const double value, json.Number(-kMax, kMax));
    return Value::Float(value);
  }
  if (json.is_array()) {
    std::vector<Value> items;
    for (size_t i = 0; i < json.size(); ++i) {
      OUTRIDER_ASSIGN(items.emplace_back(), TemplateValueOf(json[i]));
    }
    return jinja::NewList(std::move(items));
  }
  if (!json.is_object()) return Value();
  jinja::Dict dict;
  OUTRIDER_TRY(json.ForEachMember([&](const std::string& name, const JsonValue& member) -> Status {
    OUTRIDER_ASSIGN(Value value, TemplateValueOf(member));
    dict.Set(Value::Text(name, /*from_request=*/true), std::move(value));
    return Status();
  }));
  return jinja::NewDict(std::move(dict));
}

}  // namespace outrider
