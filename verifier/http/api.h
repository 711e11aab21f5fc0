// OpenAI's HTTP API over the engine: routes, keys and readiness; what a route answers is in
// generation.h and api_*.h.
//
// Thread: the HTTP server's; Drain from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/rpc/client_tokens.h"
#include "common/trace/tracer.h"
#include "verifier/engine/intake.h"
#include "verifier/engine/text_workers.h"
#include "verifier/http/api_request.h"
#include "verifier/http/metrics.h"
#include "verifier/http/routes.h"
#include "verifier/http/server.h"

namespace outrider {

class HttpApi final : public HttpHandler {
 public:
  struct Served {
    ApiModel model;
    const ClientTokens* tokens = nullptr;
    int pad_events = 0;        // bytes, as --pad-responses
    Tracer* tracer = nullptr;  // of requests, where they are recorded
    std::string version;       // GET /version
    // GET /metrics, called from the server's threads; nullptr: there is nothing at that path.
    std::function<HttpReply()> metrics;
    // An origin whose pages' requests are answered before they are sent (CORS); "": none. The
    // server names it in its answers.
    std::string cors_origin;
  };

  // All must outlive it.
  HttpApi(Served served, Intake* intake, TextWorkers* workers, HttpMetrics* metrics);

  // Not ready any more: new requests are refused, those under way go on.
  void Drain() { draining_ = true; }

  std::optional<HttpReply> Admit(const HttpRequest& head) override;
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  HttpReply Malformed(int code, const std::string& message) override;

 private:
  // RouteOf without what this server does not show.
  const Route* ServedRoute(std::string_view path) const;
  std::vector<Route> ShownRoutes() const;
  HttpReply NothingAt(const std::string& path) const;
  static HttpReply Preflight(const Route& route);
  // What a GET is answered with.
  HttpReply PageOf(const Route& route, const std::string& path) const;
  HttpReply Models(const std::string& path) const;

  // A body on its way to a worker, and from there to the engine or back.
  struct Call;
  void Work(const Route& route, HttpRequest request, std::shared_ptr<HttpExchange> exchange);
  // Of completions and chats.
  void Trace(Call& call, const HttpRequest& request, const std::string& id) const;
  // Has the body read on one of the workers, when it is `turn`'s turn; what follows is on the
  // exchange's thread.
  void Queue(const std::shared_ptr<Call>& call, const std::string& turn, std::string body);
  // On a worker.
  void Read(const std::shared_ptr<Call>& call, const std::string& body);
  void Begin(Call& call, Result<ApiRequest> parsed);
  void Answer(Call& call, Result<std::string> body);
  // `after`: when trying again may help.
  void Refuse(const Call& call, const Status& status, std::optional<Duration> after = std::nullopt);
  static void EndSpan(const Call& call, const Status& status, int http_code);

  const Served served_;
  Intake* intake_;
  TextWorkers* workers_;
  HttpMetrics* metrics_;
  const int64_t started_;       // Unix seconds
  const std::string open_api_;  // the document of GET /openapi.json
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace outrider
