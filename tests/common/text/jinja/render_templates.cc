// Renders templates for oracle_test.py. Reads one case per line from standard input, an object with
// "template" and "variables" (and "now", seconds since 1970), and writes one line for each: an
// object with "text" and "parts" (pairs of a text and whether it came from the request), or with
// "error". Every string of the variables counts as the request's, except the roles of messages.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/template.h"

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;  // templates see members in file order

jinja::Value ValueOf(const Json& json, bool from_request = true) {
  if (json.is_boolean()) return jinja::Value::Bool(json.get<bool>());
  if (json.is_number_integer()) return jinja::Value::Int(json.get<int64_t>());
  if (json.is_number()) return jinja::Value::Float(json.get<double>());
  if (json.is_string()) return jinja::Value::Text(json.get<std::string>(), from_request);
  if (json.is_array()) {
    std::vector<jinja::Value> items;
    for (const Json& item : json) items.push_back(ValueOf(item));
    return jinja::NewList(std::move(items)).value();
  }
  if (!json.is_object()) return jinja::Value();
  jinja::Dict dict;
  for (const auto& [name, value] : json.items()) {
    dict.Set(jinja::Value::Text(name, name != "role"), ValueOf(value, name != "role"));
  }
  return jinja::NewDict(std::move(dict)).value();
}

Json Answer(const Json& test) {
  const auto parsed = jinja::Template::Parse(test["template"].get<std::string>());
  if (!parsed.ok()) return {{"error", parsed.status().message()}};
  const jinja::Value variables = ValueOf(test["variables"]);
  const auto text = parsed->Render(variables.dict(), {.now = test.value("now", 0)});
  if (!text.ok()) return {{"error", text.status().message()}};
  Json parts = Json::array();
  text->ForEachPart([&](std::string_view part, bool from_request) {
    parts.push_back({std::string(part), from_request});
  });
  return {{"text", text->text()}, {"parts", std::move(parts)}};
}

}  // namespace
}  // namespace outrider

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << outrider::Answer(nlohmann::ordered_json::parse(line)).dump() << "\n";
  }
  return 0;
}
