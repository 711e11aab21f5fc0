// HTTP/1.1 over Boost.Beast: connections, limits and timeouts, independent of what is served. A few
// threads carry any number of connections, and each connection's work runs in order.
//
// cpp-httplib and civetweb hold a thread for each connection: 256 streams would take 256 threads,
// as many slow clients would take them all, and nothing would watch a connection while its answer
// is computed.
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
  std::string content_encoding;  // the first one that is not "identity"
  std::string peer;              // who its connection counts for; see PeerOf in common/net
  std::string client;            // outrider-client
  // x-request-id if that is short and visible ASCII, else the server's own; every answer has it
  std::string request_id;
  std::string prefix;                 // x-outrider-prefix, if it is short and visible ASCII
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

// Returns the next part of a stream at each call; "" after the last. It must not use the exchange.
using HttpSource = std::function<std::string()>;

// The way back for one request's answer. Its holders keep the connection's memory, not the
// connection.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Thread: any. Runs the task in order with the connection's other work, even if the client has
  // gone by then. Never blocks.
  virtual void Post(std::function<void()> task) = 0;

  // The others may only be called from the handler's call or from a posted task. Call either Reply,
  // or BeginStream, then any number of Write and WriteFrom, then EndStream.
  virtual void Reply(HttpReply reply) = 0;
  virtual void BeginStream(HttpReply head) = 0;
  // A client that does not read what was written, by bytes waiting or by time, counts as gone.
  virtual void Write(std::string bytes) = 0;
  // Writes part after part of the source, before what is written later. A part is made once all
  // before it has been sent, so none waits for a slow client.
  virtual void WriteFrom(HttpSource source) = 0;
  virtual void EndStream() = 0;
  // Called once if the client goes before the end of the answer.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Called from the server's threads, in order for one connection.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called with the head before the body is read. A returned answer refuses the request.
  virtual std::optional<HttpReply> Admit(const HttpRequest& head) = 0;
  virtual void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // The answer to a request that cannot be read (400, 413, 429, 431, 503).
  virtual HttpReply Malformed(int code, const std::string& message) = 0;
};

struct HttpServerOptions {
  std::string listen;             // host:port
  std::shared_ptr<TlsFiles> tls;  // null: plaintext
  // Beyond this, a new one replaces the one that has waited longest for its client: for a request
  // or its rest, or for a second or more to read an answer. If none waits, the new one is closed.
  int max_connections = 2048;
  HttpHeaders headers;  // of every answer
  size_t max_header_bytes = 16 << 10;
  // Fits a text of Tokenizer::kMaxTextBytes that doubles by escapes.
  size_t max_body_bytes = 8 << 20;
  // Covers bodies from their first byte until the handler releases their requests.
  BodyBudget::Limits bodies;
  // Bytes of a stream that wait for its client.
  size_t max_waiting_bytes = 4 << 20;
  Duration head_timeout = std::chrono::seconds(30);  // also between requests of a connection
  Duration body_timeout = std::chrono::seconds(30);
  Duration write_timeout = std::chrono::seconds(30);  // without progress
};

class HttpServer {
 public:
  // `handler` must live until Shutdown has returned; exchanges must not outlive the server.
  // kUnavailable: the address is malformed or taken.
  HttpServer();
  ~HttpServer();
  Status Start(const HttpServerOptions& options, HttpHandler* handler);
  int port() const;
  // Bytes of unfinished bodies, as counted by HttpServerOptions::bodies.
  size_t body_bytes() const;
  // Answers under way: from a whole request, or a refused head, to the last byte of its answer.
  int answers() const;
  // Sends clients elsewhere: closes connections that wait for a request, and all others after their
  // next answer, which says so. New ones are taken.
  void Drain();
  // Takes no new connections, lets running answers end for `grace`, then closes all.
  void Shutdown(Duration grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outrider
