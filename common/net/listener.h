// Listens on an address and hands out the TCP connections that come. It outlives a time without
// free descriptors: it accepts again when there are some.
//
// Thread: the owner's; `accept` is called by the threads that run `io`, one call at a time.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <list>
#include <string>

#include "common/base/status.h"

namespace outrider {

class Listener {
 public:
  // The socket's handlers run one after the other, in a strand of its own.
  using AcceptFn = std::function<void(boost::asio::ip::tcp::socket socket)>;

  // `io` outlives it and does not run any more when it is destroyed.
  explicit Listener(boost::asio::io_context& io);

  // `address`: "host:port" or "[host]:port", all addresses that the host has; port 0 takes a
  // free one. kUnavailable when it is malformed or taken, with the advice to choose another `flag`.
  Status Listen(const std::string& address, const std::string& flag);
  int port() const { return port_; }
  void Start(AcceptFn accept);
  // No connection is accepted any more. Thread: any.
  void Stop();

 private:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  struct Socket {
    explicit Socket(const Strand& strand) : acceptor(strand), pause(strand) {}
    boost::asio::ip::tcp::acceptor acceptor;
    boost::asio::steady_timer pause;  // when the process has no descriptor left
  };

  boost::system::error_code Bind(boost::asio::ip::tcp::endpoint endpoint);
  void Accept(Socket& socket);

  boost::asio::io_context& io_;
  Strand strand_;
  std::list<Socket> sockets_;
  AcceptFn accept_;
  int port_ = 0;
};

// The NetworkOf the remote end. "" where the connection is gone.
std::string PeerOf(const boost::asio::ip::tcp::socket& socket);

}  // namespace outrider
