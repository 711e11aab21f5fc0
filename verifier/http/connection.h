// One connection of the HTTP server, over TCP or TLS. Only for server.cc and connection.cc: all use
// of Boost is in these two.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "verifier/http/server.h"

namespace outrider {

namespace net = boost::asio;
namespace ssl = boost::asio::ssl;

class HttpConnection : public HttpExchange {
 public:
  virtual void Start() = 0;
  // Thread: any. Closes once the answer under way has ended.
  virtual void EndSoon() = 0;
  // Thread: any. The same, but a request of which some has come is still answered.
  virtual void EndWhenIdle() = 0;
  // Thread: any. Closes, and ends the answer under way as if the client had gone.
  virtual void Drop() = 0;
  // Closes; called after the server's threads have ended.
  virtual void Abandon() = 0;
};

// What a connection waits for from its client.
enum class ClientWait {
  kNone,
  kRequest,  // a request or the rest of one
  kReading,  // the client reads an answer, or closes after the last one
};

// What connections need from their server, which outlives them. Thread: any.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual const HttpServerOptions& options() const = 0;
  virtual HttpHandler& handler() = 0;
  virtual bool stopping() const = 0;
  // Every answer is its connection's last. Also while stopping.
  virtual bool draining() const = 0;
  // A share of the memory for bodies, for one from this peer.
  virtual BodyShare ShareFor(const std::string& peer) = 0;
  // The connection waits from now on: at first for kRequest. One that waits may have to make room
  // for others; the one that has waited longest goes first.
  virtual void SetWait(HttpConnection* connection, ClientWait wait) = 0;
  // Names a request whose client did not.
  virtual std::string NewRequestId() = 0;
  // An answer begins (1) or has ended (-1): its last byte is sent, or its client is gone.
  virtual void CountAnswer(int change) = 0;
  virtual void OnClosed(HttpConnection* connection) = 0;
};

// `socket` runs on a strand of its own. `peer`: who its bodies count for. `tls` null: plaintext.
std::shared_ptr<HttpConnection> MakeConnection(net::ip::tcp::socket socket, std::string peer,
                                               std::shared_ptr<ssl::context> tls,
                                               ConnectionOwner* owner);

}  // namespace outrider
