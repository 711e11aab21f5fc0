#include "verifier/http/routes.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr Route kRoutes[] = {
    {RouteKind::kCompletions, "completions", "POST", "/v1/completions", "Continues texts",
     /*needs_token=*/true, /*while_draining=*/false},
    {RouteKind::kChat, "chat_completions", "POST", "/v1/chat/completions", "Answers a chat",
     /*needs_token=*/true, /*while_draining=*/false},
    {RouteKind::kModels, "models", "GET", "/v1/models", "The model, in a list"},
    {RouteKind::kModel, "model", "GET", "/v1/models/{model}", "The model, if it has this name"},
    {RouteKind::kTokenize, "tokenize", "POST", "/tokenize", "The tokens of a prompt or a chat"},
    {RouteKind::kDetokenize, "detokenize", "POST", "/detokenize", "The text of tokens"},
    {RouteKind::kMetrics, "metrics", "GET", "/metrics", "Metrics, as Prometheus reads them"},
    {RouteKind::kServerVersion, "version", "GET", "/version", "The server's version"},
    {RouteKind::kOpenApi, "openapi", "GET", "/openapi.json", "This description"},
    {RouteKind::kHealth, "health", "GET", "/health", "200 when ready, 503 while draining",
     /*needs_token=*/false, /*while_draining=*/false},
    {RouteKind::kHealth, "ping", "GET", "/ping", "The same, where SageMaker asks",
     /*needs_token=*/false, /*while_draining=*/false},
};

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

const Route* RouteOf(std::string_view path) {
  const bool one_model = path.starts_with("/v1/models/");
  const auto* const found =
      std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& route) {
        return path == route.path || (one_model && route.kind == RouteKind::kModel);
      });
  return found == std::end(kRoutes) ? nullptr : found;
}

}  // namespace outrider
