// OpenAI's HTTP API over the engine: routes, keys and readiness. The answers of routes are in
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
    int pad_events = 0;        // see --pad-responses
    Tracer* tracer = nullptr;  // records the spans of requests, if set
    std::string version;       // for GET /version
    int page_tokens = 16;      // of the prefix cache, for x-outrider-prefix
    // Serves GET /metrics, called from the server's threads; nullptr: the path does not exist.
    std::function<HttpReply()> metrics;
    // An origin whose pages' preflight requests (CORS) are answered; "": none. The server names it
    // in its answers.
    std::string cors_origin;
  };

  // All must outlive it.
  HttpApi(Served served, Intake* intake, TextWorkers* workers, HttpMetrics* metrics);

  // The front is no longer ready: new requests are refused, running ones continue.
  void Drain() { draining_ = true; }

  std::optional<HttpReply> Admit(const HttpRequest& head) override;
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  HttpReply Malformed(int code, const std::string& message) override;

 private:
  // RouteOf, without routes that this server does not have.
  const Route* ServedRoute(std::string_view path) const;
  std::vector<Route> ShownRoutes() const;
  HttpReply NothingAt(const std::string& path) const;
  static HttpReply Preflight(const Route& route);
  // The answer to a GET.
  HttpReply PageOf(const Route& route, const std::string& path) const;
  HttpReply Models(const std::string& path) const;

  // A body on its way to a worker, and from there to the engine or back.
  struct Call;
  void Work(const Route& route, HttpRequest request, std::shared_ptr<HttpExchange> exchange);
  // Starts the record of a completion or chat.
  void Record(Call& call, const HttpRequest& request, const std::string& client) const;
  // Reads the body on one of the workers when it is `turn`'s turn, and continues on the exchange's
  // thread.
  void Queue(const std::shared_ptr<Call>& call, const std::string& turn, std::string body);
  // Runs on a worker.
  void Read(const std::shared_ptr<Call>& call, const std::string& body);
  void Begin(Call& call, Result<ApiRequest> parsed);
  void Answer(Call& call, Result<std::string> body);
  // `after`: when to try again, if that may help.
  void Refuse(Call& call, const Status& status, std::optional<Duration> after = std::nullopt);
  static void EndRecord(const Call& call, const Status& status, int http_code);

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
