// OpenAI's HTTP API over the engine: routes, keys and readiness; what a route answers is in
// generation.h and api_*.h.
//
// Thread: the HTTP server's; Drain from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/rpc/client_tokens.h"
#include "common/trace/tracer.h"
#include "verifier/engine/intake.h"
#include "verifier/engine/text_workers.h"
#include "verifier/http/api_request.h"
#include "verifier/http/metrics.h"
#include "verifier/http/server.h"

namespace outrider {

class HttpApi final : public HttpHandler {
 public:
  struct Served {
    ApiModel model;
    const ClientTokens* tokens = nullptr;
    int pad_events = 0;        // bytes, as --pad-responses
    Tracer* tracer = nullptr;  // of requests, where they are recorded
  };

  // All must outlive it.
  HttpApi(Served served, Intake* intake, TextWorkers* workers, HttpMetrics* metrics);

  // Not ready any more: new requests are refused, those under way go on.
  void Drain() { draining_ = true; }

  std::optional<HttpReply> Admit(const HttpRequest& head) override;
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  HttpReply Malformed(int code, const std::string& message) override;

 private:
  HttpReply Models(const std::string& path) const;
  // A completion or a chat on its way to the engine.
  struct Call;
  void Generate(HttpRequest request, bool chat, std::shared_ptr<HttpExchange> exchange);
  // Reads the body on one of the workers, when it is `turn`'s turn, and goes on on the exchange's
  // thread.
  void Queue(const std::shared_ptr<Call>& call, const std::string& turn, std::string body);
  void Begin(Call& call, Result<ApiRequest> parsed);
  // `after`: when trying again may help.
  void Refuse(const Call& call, const Status& status, std::optional<Duration> after = std::nullopt);
  static void EndSpan(const Call& call, const Status& status, int http_code);

  const Served served_;
  Intake* intake_;
  TextWorkers* workers_;
  HttpMetrics* metrics_;
  const int64_t started_;  // Unix seconds
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace outrider
