// The HTTP front's routes by path.
//
// Thread: any.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace outrider {

enum class RouteKind {
  kCompletions,
  kChat,
  kModels,
  kModel,  // one by its name
  kTokenize,
  kDetokenize,
  kMetrics,
  kServerVersion,
  kOpenApi,
  kHealth,
};

struct Route {
  RouteKind kind = RouteKind::kHealth;
  const char* name = "";  // in metrics
  const char* method = "GET";
  const char* path = "";
  const char* summary = "";    // for openapi.json
  bool needs_token = true;     // if the server has any
  bool while_draining = true;  // also served while draining
};

std::span<const Route> Routes();
// nullptr: the path does not exist. `/v1/models/NAME` is the route of `/v1/models/{model}`.
const Route* RouteOf(std::string_view path);

}  // namespace outrider
