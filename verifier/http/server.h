// HTTP/1.1 over Boost.Beast: connections, limits and timeouts; knows nothing of what is served. A
// few threads carry any number of connections, and each connection's work runs in order.
//
// Chosen over cpp-httplib and civetweb, which hold a thread for each connection: 256 streams would
// be 256 threads, as many slow clients would take them all, and nobody would watch a connection
// while its answer is computed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/tls_files.h"
#include "common/trace/trace_context.h"
#include "verifier/http/body_budget.h"

namespace outrider {

struct HttpRequest {
  std::string method;
  std::string path;  // without the query
  std::optional<std::string> authorization;
  std::string content_type;
  std::string peer;                   // whom its connection counts for, as PeerOf of common/net
  std::string client;                 // outrider-client
  std::string request_id;             // x-request-id, where it is short and visible ASCII
  std::optional<TraceContext> trace;  // traceparent and tracestate
  BodyShare share;                    // of the server's memory for bodies
  std::string body;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int code = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;
  std::string body;
};

// The next part of a stream at each call; "" after the last one. It must not use the exchange.
using HttpSource = std::function<std::string()>;

// One request's way back. Whoever holds it keeps the connection's memory, not the connection.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Thread: any. Runs the task in order with all else of this connection, also when the client has
  // gone by then. Never waits.
  virtual void Post(std::function<void()> task) = 0;

  // The rest: from the handler's call or from a posted task only. Either Reply, or BeginStream and
  // then any number of Write and WriteFrom, then EndStream.
  virtual void Reply(HttpReply reply) = 0;
  virtual void BeginStream(HttpReply head) = 0;
  // A client that does not read what has been written, by bytes waiting or by time, counts as gone.
  virtual void Write(std::string bytes) = 0;
  // Part after part of the source, before what is written later. A part is made when all that
  // precedes it is on its way, so none of them waits for a client that reads slowly.
  virtual void WriteFrom(HttpSource source) = 0;
  virtual void EndStream() = 0;
  // Called once if the client goes before the end of the answer.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Called from the server's threads, for one connection in order.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // With the head alone, before any of the body is read: an answer refuses it.
  virtual std::optional<HttpReply> Admit(const HttpRequest& head) = 0;
  virtual void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // What to say to a request that cannot be read (400, 413, 429, 431, 503).
  virtual HttpReply Malformed(int code, const std::string& message) = 0;
};

struct HttpServerOptions {
  std::string listen;             // host:port
  std::shared_ptr<TlsFiles> tls;  // null: plaintext
  // Beyond, a new one takes the place of the one that has waited longest for a request or for the
  // rest of it; it is closed where all are being answered.
  int max_connections = 2048;
  HttpHeaders headers;  // of every answer
  size_t max_header_bytes = 16 << 10;
  // A text of Tokenizer::kMaxTextBytes with as much of escapes.
  size_t max_body_bytes = 8 << 20;
  // Of bodies as they come, until the handler lets go of their requests.
  BodyBudget::Limits bodies;
  // Of a stream, what waits for its client.
  size_t max_waiting_bytes = 4 << 20;
  Duration head_timeout = std::chrono::seconds(30);  // also for the next request of a connection
  Duration body_timeout = std::chrono::seconds(30);
  Duration write_timeout = std::chrono::seconds(30);  // without progress
};

class HttpServer {
 public:
  // `handler` must live until Shutdown has returned; exchanges may not outlive the server.
  // kUnavailable: the address is malformed or taken.
  HttpServer();
  ~HttpServer();
  Status Start(const HttpServerOptions& options, HttpHandler* handler);
  int port() const;
  // Of unfinished bodies, as HttpServerOptions::bodies counts them.
  size_t body_bytes() const;
  // Takes no new connection, lets answers under way end for `grace`, then closes all.
  void Shutdown(Duration grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outrider
