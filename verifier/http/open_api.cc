#include "verifier/http/open_api.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verifier/http/answer_schemas.h"
#include "verifier/http/json_text.h"
#include "verifier/http/request_fields.h"

namespace outrider {
namespace {

// "string|array" as ["string", "array"].
Json ListOf(std::string_view words) {
  Json list = Json::array();
  while (!words.empty()) {
    const size_t end = std::min(words.find('|'), words.size());
    list.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return list;
}

// As an integer if it is one, for readers that parse integers of 64 bits.
Json Bound(double value, bool is_integer) {
  if (!is_integer) return value;
  return value < 0 ? Json(static_cast<int64_t>(value)) : Json(static_cast<uint64_t>(value));
}

// These keywords have no effect on other types than numbers.
void AddRange(const FieldRange& range, bool is_integer, Json& schema) {
  if (std::isfinite(range.low)) {
    schema[range.excludes_low ? "exclusiveMinimum" : "minimum"] = Bound(range.low, is_integer);
  }
  if (std::isfinite(range.high)) schema["maximum"] = Bound(range.high, is_integer);
}

bool Has(std::string_view types, std::string_view type) {
  return types.find(type) != std::string_view::npos;
}

Json ObjectOf(FieldsOf kind);

Json SchemaOf(const ServedField& field) {
  const bool is_array = Has(field.type, "array"), is_object = Has(field.type, "object");
  Json schema = Json::object();
  if (is_object && field.members.has_value()) schema = ObjectOf(*field.members);
  schema["type"] = ListOf(field.type);
  if (!field.is_required) schema["type"].push_back("null");  // equivalent to absent
  if (!field.words.empty()) {
    schema["enum"] = ListOf(field.words);
    if (!field.is_required) schema["enum"].push_back(nullptr);
  }
  if (is_array && field.members.has_value()) {
    schema["items"] = ObjectOf(*field.members);
    if (field.is_required) schema["minItems"] = 1;
  }
  if (field.items.empty()) {
    AddRange(field.range, Has(field.type, "integer"), schema);
    return schema;
  }
  Json item = {{"type", ListOf(field.items)}};
  AddRange(field.range, Has(field.items, "integer"), item);
  schema[is_array ? "items" : "additionalProperties"] = std::move(item);
  return schema;
}

Json ObjectOf(FieldsOf kind) {
  Json properties = Json::object(), required = Json::array();
  for (const ServedField& field : ServedFields(kind)) {
    properties[std::string(field.name)] = SchemaOf(field);
    if (field.is_required) required.push_back(field.name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

Json BodyOf(FieldsOf kind, const std::string& model) {
  Json body = ObjectOf(kind);
  body["properties"]["model"]["enum"] = Json::array({model, nullptr});
  return body;
}

std::optional<Json> BodyOf(RouteKind kind, const std::string& model) {
  switch (kind) {
    case RouteKind::kCompletions: return BodyOf(FieldsOf::kCompletion, model);
    case RouteKind::kChat: return BodyOf(FieldsOf::kChat, model);
    case RouteKind::kTokenize:
      return Json{{"anyOf", Json::array({BodyOf(FieldsOf::kTokenize, model),
                                         BodyOf(FieldsOf::kTokenizeChat, model)})}};
    case RouteKind::kDetokenize: return BodyOf(FieldsOf::kDetokenize, model);
    default: return std::nullopt;
  }
}

Json Reference(const std::string& schema) {
  return {{"schema", {{"$ref", "#/components/schemas/" + schema}}}};
}

Json ContentOf(RouteKind kind) {
  if (kind == RouteKind::kMetrics) return {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  Json content = {{"application/json", Reference(AnswerSchemaOf(kind))}};
  // Server-sent events, for which OpenAPI 3.1 has no schema.
  if (kind == RouteKind::kCompletions || kind == RouteKind::kChat) {
    content["text/event-stream"] = {{"schema", {{"type", "string"}}}};
  }
  return content;
}

Json OperationOf(const Route& route, const std::string& model) {
  Json operation = {
      {"operationId", route.name},
      {"summary", route.summary},
      {"responses",
       {{"200", {{"description", "the answer"}, {"content", ContentOf(route.kind)}}},
        {"default",
         {{"description", "an error"}, {"content", {{"application/json", Reference("Error")}}}}}}}};
  if (route.kind == RouteKind::kModel) {
    operation["parameters"] = Json::array({{{"name", "model"},
                                            {"in", "path"},
                                            {"required", true},
                                            {"schema", {{"type", "string"}}}}});
  }
  if (route.needs_token) {
    operation["security"] = Json::array({Json::object(), {{"token", Json::array()}}});
  }
  if (std::optional<Json> body = BodyOf(route.kind, model)) {
    operation["requestBody"] = {
        {"required", true}, {"content", {{"application/json", {{"schema", std::move(*body)}}}}}};
  }
  return operation;
}

}  // namespace

std::string OpenApi(std::span<const Route> routes, const std::string& version,
                    const std::string& model) {
  Json paths = Json::object();
  for (const Route& route : routes) {
    const char* const method = std::string_view(route.method) == "GET" ? "get" : "post";
    paths[route.path][method] = OperationOf(route, model);
  }
  const Json document = {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Outrider"}, {"version", version}}},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", AnswerSchemas()},
        {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  return Dump(document);
}

}  // namespace outrider
