// One request of completions or chat completions on its way through the engine: submits its
// choices, gathers or streams their output, and cancels them when the client goes.
//
// Thread: that of its exchange; the engine's calls are posted there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "verifier/engine/intake.h"
#include "verifier/engine/request_record.h"
#include "verifier/engine/sink.h"
#include "verifier/http/api_answer.h"
#include "verifier/http/metrics.h"
#include "verifier/http/server.h"

namespace outrider {

class HttpGeneration final : public std::enable_shared_from_this<HttpGeneration> {
 public:
  struct Parts {
    Intake* intake = nullptr;
    HttpMetrics* metrics = nullptr;
    std::string route;    // for metrics
    HttpHeaders headers;  // of every answer
    int pad_events = 0;   // events of a stream are padded to a multiple of this many bytes
    std::shared_ptr<RequestRecord> record;
  };

  HttpGeneration(Parts parts, ApiRequest request, ApiAnswer answer,
                 std::shared_ptr<HttpExchange> exchange);

  // Call once. The first choice of each prompt computes it for the others.
  void Start();

 private:
  class Sink;

  // Submits all choices.
  void Submit();
  void OnRefused(const Status& status, std::optional<Duration> after);
  void OnChunk(int index, Chunk chunk);
  void OnFinish(int index, const Summary& summary);
  void OnFail(const Status& failure, std::optional<Duration> after = std::nullopt);
  // With the name of the client's field that has the grammar.
  Status InClientsWords(const Status& status) const;
  void OnGone();
  void Send(const std::vector<std::string>& events);
  void SendFrom(ApiAnswer::EventSource events);
  // Sends the head of a stream, before its first event.
  void BeginEvents();
  // Sends the whole answer.
  void Reply();
  // Ends the request's record. `http_code`: of the answer.
  void EndRecord(const Status& status, int http_code);
  // Cancels what the engine still has.
  void CancelRest();

  const Parts parts_;
  const ApiRequest request_;
  ApiAnswer answer_;
  const std::shared_ptr<HttpExchange> exchange_;
  // of the choices that the engine may have, by prompt * choices + choice
  std::vector<uint64_t> ids_;
  bool streaming_ = false;  // the stream's head is sent
  bool over_ = false;       // the answer is complete, or the client is gone
};

}  // namespace outrider
