#include "verifier/http/open_api.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "verifier/http/json_text.h"
#include "verifier/http/request_fields.h"

namespace outrider {
namespace {

// "string|array" as {"type": ["string", "array", "null"]}.
Json SchemaOf(std::string_view type) {
  Json types = Json::array();
  while (!type.empty()) {
    const size_t end = std::min(type.find('|'), type.size());
    types.push_back(type.substr(0, end));
    type.remove_prefix(std::min(end + 1, type.size()));
  }
  types.push_back("null");
  return {{"type", std::move(types)}};
}

Json ObjectOf(FieldsOf kind, const char* required) {
  Json properties = Json::object();
  for (const ServedField& field : ServedFields(kind)) {
    properties[std::string(field.name)] = SchemaOf(field.type);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (required != nullptr) schema["required"] = Json::array({required});
  return schema;
}

std::optional<Json> BodyOf(RouteKind kind) {
  switch (kind) {
    case RouteKind::kCompletions: return ObjectOf(FieldsOf::kCompletion, "prompt");
    case RouteKind::kChat: return ObjectOf(FieldsOf::kChat, "messages");
    case RouteKind::kTokenize:
      return Json{{"anyOf", Json::array({ObjectOf(FieldsOf::kTokenize, "prompt"),
                                         ObjectOf(FieldsOf::kTokenizeChat, "messages")})}};
    case RouteKind::kDetokenize: return ObjectOf(FieldsOf::kDetokenize, "tokens");
    default: return std::nullopt;
  }
}

Json OperationOf(const Route& route) {
  const char* const type = route.kind == RouteKind::kMetrics ? "text/plain" : "application/json";
  Json operation = {
      {"operationId", route.name},
      {"summary", route.summary},
      {"responses",
       {{"200", {{"description", "the answer"}, {"content", {{type, Json::object()}}}}},
        {"default",
         {{"description", "an error"},
          {"content",
           {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}}}}}};
  if (route.needs_token) {
    operation["security"] = Json::array({Json::object(), {{"token", Json::array()}}});
  }
  if (std::optional<Json> body = BodyOf(route.kind)) {
    operation["requestBody"] = {
        {"required", true}, {"content", {{"application/json", {{"schema", std::move(*body)}}}}}};
  }
  return operation;
}

}  // namespace

std::string OpenApi(std::span<const Route> routes, const std::string& version) {
  Json paths = Json::object();
  for (const Route& route : routes) {
    const char* const method = std::string_view(route.method) == "GET" ? "get" : "post";
    paths[route.path][method] = OperationOf(route);
  }
  const Json error = {{"type", "object"},
                      {"required", Json::array({"error"})},
                      {"properties",
                       {{"error",
                         {{"type", "object"},
                          {"required", Json::array({"message", "type", "param", "code"})},
                          {"properties",
                           {{"message", {{"type", "string"}}},
                            {"type", {{"type", "string"}}},
                            {"param", SchemaOf("string")},
                            {"code", SchemaOf("string")}}}}}}}};
  const Json document = {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Outrider"}, {"version", version}}},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", {{"Error", error}}},
        {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  return document.dump();
}

}  // namespace outrider
