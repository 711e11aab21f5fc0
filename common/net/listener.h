// Listens on an address and passes on new TCP connections. If the process runs out of descriptors,
// it accepts again once there are some.
//
// Thread: the owner's; the threads that run `io` call `accept`, one call at a time.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

class Listener {
 public:
  // The socket's handlers run one after another, in a strand of its own.
  using AcceptFn = std::function<void(boost::asio::ip::tcp::socket socket)>;

  // `io` must outlive it, and must no longer run when it is destroyed.
  explicit Listener(boost::asio::io_context& io);

  // `address`: "host:port" or "[host]:port", for all addresses of the host; port 0 takes a free
  // one. kUnavailable: it is malformed or in use; the message suggests choosing another `flag`.
  Status Listen(const std::string& address, const std::string& flag);
  int port() const { return port_; }
  void Start(AcceptFn accept);
  // Stops accepting connections. Thread: any.
  void Stop();

 private:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  struct Socket {
    explicit Socket(const Strand& strand) : acceptor(strand), pause(strand) {}
    boost::asio::ip::tcp::acceptor acceptor;
    boost::asio::steady_timer pause;  // while the process has no descriptors left
  };

  boost::system::error_code Bind(boost::asio::ip::tcp::endpoint endpoint);
  void Accept(Socket& socket);

  boost::asio::io_context& io_;
  Strand strand_;
  std::list<Socket> sockets_;
  AcceptFn accept_;
  int port_ = 0;
};

// An address and the flag that gave it.
struct ListenFlag {
  std::string flag;
  std::string address;
};

// Listens on all addresses for a moment and closes them again. The error is that of
// Listener::Listen for the first address that is in use, also if an earlier flag has the same port.
// Empty addresses are left out. What takes a while to start calls it before, and listens later.
Status CheckCanListen(const std::vector<ListenFlag>& flags);

// NetworkOf the remote end; "" if the connection is gone.
std::string PeerOf(const boost::asio::ip::tcp::socket& socket);

}  // namespace outrider
