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
  HttpApi(Served served, Intake* intake, HttpMetrics* metrics);

  // Not ready any more: new requests are refused, those under way go on.
  void Drain() { draining_ = true; }

  std::optional<HttpReply> Admit(const HttpRequest& head) override;
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  HttpReply Malformed(int code, const std::string& message) override;

 private:
  HttpReply Models(const std::string& path) const;
  void Generate(const HttpRequest& request, bool chat, std::shared_ptr<HttpExchange> exchange);

  const Served served_;
  Intake* intake_;
  HttpMetrics* metrics_;
  const int64_t started_;  // Unix seconds
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace outrider
