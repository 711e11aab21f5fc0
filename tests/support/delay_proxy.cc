#include "tests/support/delay_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace outrider::testing {
namespace {

constexpr size_t kReadBytes = 16 << 10;

Result<sockaddr_in> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return InvalidArgument("no port in \"" + text + "\"");
  std::string host = text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  const int port = atoi(text.c_str() + colon + 1);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (port < 0 || port > 65535 || inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return InvalidArgument("not an IPv4 address and port: \"" + text + "\"");
  }
  return address;
}

Status SystemError(const std::string& what) { return Unavailable(what + ": " + strerror(errno)); }

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Closes with a reset instead of an orderly shutdown.
void Reset(int fd) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(fd);
}

bool IsTransient(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

// fd[0] is the accepted connection, fd[1] the one that we dialled; line[i] has the bytes from
// fd[i].
struct DelayProxy::Connection {
  struct Direction {
    DelayLine line;
    bool ended = false;     // the sender has closed its side
    bool finished = false;  // we have closed our side towards the receiver
  };

  Connection(int from, int to, uint64_t seed)
      : fd{from, to},
        direction{Direction{DelayLine(2 * seed)}, Direction{DelayLine(2 * seed + 1)}} {}
  ~Connection() {
    // After an orderly end, bytes may still be in the kernel's buffers: a reset would drop them.
    for (const int f : fd) finished() ? static_cast<void>(close(f)) : Reset(f);
  }

  short Events(int side, Time now) const {
    const Direction& out = direction[side];
    const Direction& in = direction[1 - side];
    short events = 0;
    if (!out.ended && !out.line.full()) events |= POLLIN;
    if (in.line.due() <= now) events |= POLLOUT;
    return events;
  }

  // Returns false when the connection is broken.
  bool Read(int side, const PathDistribution& distribution, Time now) {
    Direction& out = direction[side];
    std::string bytes(kReadBytes, '\0');
    const ssize_t got = recv(fd[side], bytes.data(), bytes.size(), 0);
    if (got < 0) return IsTransient(errno);
    bytes.resize(static_cast<size_t>(got));
    out.ended = got == 0;
    out.line.Push(std::move(bytes), distribution, now);
    return true;
  }

  // Sends what is due towards `side`. Returns false when the connection is broken.
  bool Write(int side, Time now) {
    Direction& in = direction[1 - side];
    while (in.line.due() <= now) {
      const std::string_view bytes = in.line.front();
      if (bytes.empty()) {
        shutdown(fd[side], SHUT_WR);
        in.finished = true;
        in.line.Pop(0);
        continue;
      }
      const ssize_t sent = send(fd[side], bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return IsTransient(errno);
      in.line.Pop(static_cast<size_t>(sent));
    }
    return true;
  }

  bool finished() const { return direction[0].finished && direction[1].finished; }
  int stalls() const { return direction[0].line.stalls() + direction[1].line.stalls(); }

  const std::array<int, 2> fd;
  std::array<Direction, 2> direction;
};

Result<std::unique_ptr<DelayProxy>> DelayProxy::Start(const DelayProxyOptions& options) {
  OUTRIDER_ASSIGN(sockaddr_in address, ParseAddress(options.listen));
  OUTRIDER_TRY(ParseAddress(options.to).status());
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  socklen_t size = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const Status error = SystemError("cannot listen on " + options.listen);
    close(listener);
    return error;
  }
  return std::unique_ptr<DelayProxy>(new DelayProxy(listener, ntohs(address.sin_port), options));
}

DelayProxy::DelayProxy(int listener, int port, const DelayProxyOptions& options)
    : listener_(listener),
      port_(port),
      to_(options.to),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      distribution_{.delay = options.rtt / 2, .loss = options.loss, .stall = options.stall},
      seed_(options.seed) {
  thread_ = std::thread([this] { Run(); });
}

DelayProxy::~DelayProxy() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  Wake();
  thread_.join();
  close(listener_);
  close(wake_);
}

std::string DelayProxy::address() const { return "127.0.0.1:" + std::to_string(port_); }

void DelayProxy::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(wake_, &one, sizeof(one));
}

void DelayProxy::SetRtt(Duration rtt) {
  MutexLock lock(mu_);
  distribution_.delay = rtt / 2;
}

void DelayProxy::SetLoss(double loss) {
  MutexLock lock(mu_);
  distribution_.loss = loss;
}

void DelayProxy::Partition() {
  MutexLock lock(mu_);
  partitioned_ = true;  // the thread forwards only under this mutex
}

void DelayProxy::Heal() {
  {
    MutexLock lock(mu_);
    partitioned_ = false;
  }
  Wake();
}

void DelayProxy::Cut() {
  MutexLock lock(mu_);
  cut_ = true;
  Wake();
  while (cut_) lock.Wait(changed_);
}

int DelayProxy::connections() {
  MutexLock lock(mu_);
  return static_cast<int>(connections_.size());
}

int DelayProxy::stalls() {
  MutexLock lock(mu_);
  int stalls = stalls_;
  for (const auto& c : connections_) stalls += c->stalls();
  return stalls;
}

void DelayProxy::Accept() {
  const int from = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (from < 0) return;
  const int to = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_in address = *ParseAddress(to_);
  SendAtOnce(from);
  SendAtOnce(to);
  const bool dialled =
      connect(to, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EINPROGRESS;
  auto connection = std::make_unique<Connection>(from, to, seed_++);
  // Dropped, that is reset, if dialling fails at once; a later refusal shows as an error.
  if (dialled) connections_.push_back(std::move(connection));
}

void DelayProxy::CloseAll() {
  for (const auto& c : connections_) stalls_ += c->stalls();
  connections_.clear();
}

void DelayProxy::Run() {
  mu_.Lock();  // held except while waiting
  while (!stop_) {
    // fds[0] wakes, fds[1] listens, then two for each connection. -1: not polled.
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}, {partitioned_ ? -1 : listener_, POLLIN, 0}};
    const Time before = std::chrono::steady_clock::now();
    Time next = Time::max();
    for (const auto& c : connections_) {
      for (int side = 0; side < 2; ++side) {
        const short events = partitioned_ ? short{0} : c->Events(side, before);
        fds.push_back({events == 0 ? -1 : c->fd[side], events, 0});
        const Time due = c->direction[side].line.due();
        if (!partitioned_ && due > before) next = std::min(next, due);
      }
    }
    timespec wait = {};
    if (next != Time::max()) {
      const auto left = std::chrono::nanoseconds(next - before).count();
      wait = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    }
    mu_.Unlock();
    ppoll(fds.data(), fds.size(), next == Time::max() ? nullptr : &wait, nullptr);
    mu_.Lock();

    uint64_t woken;
    [[maybe_unused]] const ssize_t ignored = read(wake_, &woken, sizeof(woken));
    const Time now = std::chrono::steady_clock::now();
    if (cut_) {
      CloseAll();
      cut_ = false;
      changed_.notify_all();
      continue;
    }
    if (partitioned_) continue;
    size_t kept = 0;
    for (size_t i = 0; i < connections_.size(); ++i) {
      Connection& c = *connections_[i];
      bool alive = true;
      for (int side = 0; side < 2 && alive; ++side) {
        const short events = fds[2 + 2 * i + static_cast<size_t>(side)].revents;
        if (events & (POLLERR | POLLNVAL)) alive = false;
        if (alive && (events & (POLLIN | POLLHUP)) && !c.direction[side].ended) {
          alive = c.Read(side, distribution_, now);
        }
        if (alive) alive = c.Write(side, now);
      }
      if (alive && !c.finished()) {
        std::swap(connections_[kept++], connections_[i]);
      } else {
        stalls_ += c.stalls();
      }
    }
    connections_.resize(kept);
    if (fds[1].revents & POLLIN) Accept();
  }
  CloseAll();
  mu_.Unlock();
}

}  // namespace outrider::testing
