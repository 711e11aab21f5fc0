#include "common/net/listener.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "common/net/address.h"
#include "common/net/network.h"

namespace outrider {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using tcp = net::ip::tcp;

// Pause after accepting failed.
constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

Listener::Listener(net::io_context& io) : io_(io), strand_(net::make_strand(io)) {}

Status Listener::Listen(const std::string& address, const std::string& flag) {
  const auto refuse = [&](const std::string& why) {
    return Unavailable("cannot listen on " + address + ": " + why + "; choose another " + flag);
  };
  if (const Status port = CheckPort(address); !port.ok()) return refuse(port.message());
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return refuse("not host:port");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  error_code error;
  tcp::resolver resolver(io_);
  const auto found =
      resolver.resolve(host, address.substr(colon + 1), tcp::resolver::passive, error);
  if (error) return refuse(error.message());
  for (const auto& entry : found) {
    const error_code failed = Bind(entry.endpoint());
    if (failed) error = failed;
    // A name may resolve to an address of a family that this machine does not have.
    if (failed == net::error::address_in_use) break;
  }
  if (sockets_.empty() || error == net::error::address_in_use) return refuse(error.message());
  return Status();
}

error_code Listener::Bind(tcp::endpoint endpoint) {
  if (endpoint.port() == 0) endpoint.port(static_cast<uint16_t>(port_));  // one port for all
  Socket& socket = sockets_.emplace_back(strand_);
  error_code error;
  socket.acceptor.open(endpoint.protocol(), error);
  if (!error) socket.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) socket.acceptor.bind(endpoint, error);
  if (!error) socket.acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error) {
    sockets_.pop_back();
  } else {
    port_ = socket.acceptor.local_endpoint().port();
  }
  return error;
}

void Listener::Start(AcceptFn accept) {
  accept_ = std::move(accept);
  net::post(strand_, [this] {
    for (Socket& socket : sockets_) Accept(socket);
  });
}

void Listener::Accept(Socket& socket) {
  if (!socket.acceptor.is_open()) return;
  socket.acceptor.async_accept(net::make_strand(io_),
                               [this, &socket](error_code error, tcp::socket accepted) {
                                 if (!socket.acceptor.is_open()) return;
                                 if (!error) {
                                   accept_(std::move(accepted));
                                   return Accept(socket);
                                 }
                                 socket.pause.expires_after(kPause);
                                 socket.pause.async_wait([this, &socket](error_code stopped) {
                                   if (!stopped) Accept(socket);
                                 });
                               });
}

void Listener::Stop() {
  net::post(strand_, [this] {
    error_code ignored;
    for (Socket& socket : sockets_) {
      socket.acceptor.close(ignored);
      socket.pause.cancel(ignored);
    }
  });
}

Status CheckCanListen(const std::vector<ListenFlag>& flags) {
  net::io_context io;
  std::list<Listener> listeners;
  for (const auto& [flag, address] : flags) {
    if (address.empty()) continue;
    OUTRIDER_TRY(listeners.emplace_back(io).Listen(address, flag));
  }
  return Status();
}

std::string PeerOf(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  return error ? "" : NetworkOf(remote.address().to_string());
}

}  // namespace outrider
