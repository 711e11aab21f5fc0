#include "common/rpc/connection_intake.h"

#include <netinet/tcp.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/file_limit.h"
#include "common/base/log.h"
#include "common/net/listener.h"

namespace outrider {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using tcp = net::ip::tcp;

// Minimum time between two checks for ended connections, as each takes a system call per
// connection.
constexpr Duration kLookEach = std::chrono::milliseconds(100);

// Open connections that gRPC has taken over. gRPC does not report their end, but their descriptors
// show it: one that was closed and reused has another inode.
class OpenConnections {
 public:
  explicit OpenConnections(const ConnectionLimits& limits)
      : all_(std::min(limits.total, FileLimit() / 2)),
        max_of_peer_(std::min(limits.per_peer, FileLimit() / 4)) {}

  // Whether the peer may open one more connection.
  bool Admits(const std::string& peer, Time now) {
    if (HasRoom(peer)) return true;
    if (now - looked_ < kLookEach) return false;
    looked_ = now;
    RemoveEnded();
    return HasRoom(peer);
  }

  void Add(int descriptor, const std::string& peer) {
    open_.push_back({descriptor, InodeOf(descriptor), peer});
    ++connections_of_peer_[peer];
  }

 private:
  struct Connection {
    int descriptor;
    ino_t inode;
    std::string peer;
  };

  // 0: not open, or not a socket.
  static ino_t InodeOf(int descriptor) {
    struct stat info = {};
    return fstat(descriptor, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
  }

  bool HasRoom(const std::string& peer) const {
    const auto it = connections_of_peer_.find(peer);
    return static_cast<int64_t>(open_.size()) < all_ &&
           (it == connections_of_peer_.end() || it->second < max_of_peer_);
  }

  void RemoveEnded() {
    std::erase_if(open_, [this](const Connection& connection) {
      if (InodeOf(connection.descriptor) == connection.inode) return false;
      const auto it = connections_of_peer_.find(connection.peer);
      if (--it->second == 0) connections_of_peer_.erase(it);
      return true;
    });
  }

  const int64_t all_;
  const int64_t max_of_peer_;
  std::vector<Connection> open_;
  std::map<std::string, int64_t> connections_of_peer_;
  Time looked_;
};

}  // namespace

class ConnectionIntake::Impl {
 public:
  Impl(const ConnectionLimits& limits, TakeFn take) : open_(limits), take_(std::move(take)) {}

  ~Impl() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status Start(const std::string& address) {
    OUTRIDER_TRY(listener_.Listen(address, "--listen"));
    listener_.Start([this](tcp::socket socket) { OnAccepted(std::move(socket)); });
    thread_ = std::thread([this] { io_.run(); });
    return Status();
  }

  int port() const { return listener_.port(); }

 private:
  void OnAccepted(tcp::socket socket) {
    const std::string peer = PeerOf(socket);
    if (!open_.Admits(peer, std::chrono::steady_clock::now())) {
      Log(LogLevel::kWarning, "too many gRPC connections: one is refused");
      return;
    }
    error_code error;
    socket.set_option(tcp::no_delay(true), error);
    if (!error) socket.native_non_blocking(true, error);
    if (error) return;
    const int descriptor = socket.release(error);
    if (error) return;
    open_.Add(descriptor, peer);
    take_(descriptor);
  }

  net::io_context io_{1};
  Listener listener_{io_};
  OpenConnections open_;
  const TakeFn take_;
  std::thread thread_;
};

Result<std::unique_ptr<ConnectionIntake>> ConnectionIntake::Start(const std::string& address,
                                                                  const ConnectionLimits& limits,
                                                                  TakeFn take) {
  auto impl = std::make_unique<Impl>(limits, std::move(take));
  OUTRIDER_TRY(impl->Start(address));
  return std::unique_ptr<ConnectionIntake>(new ConnectionIntake(std::move(impl)));
}

ConnectionIntake::ConnectionIntake(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ConnectionIntake::~ConnectionIntake() = default;

int ConnectionIntake::port() const { return impl_->port(); }

}  // namespace outrider
