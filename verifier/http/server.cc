#include "verifier/http/server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <optional>
#include <thread>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/net/listener.h"
#include "verifier/http/connection.h"

namespace outrider {
namespace {

using boost::system::error_code;
using tcp = net::ip::tcp;

constexpr int kThreads = 4;
// A client that has read nothing for so long may have to make room. A network that loses packets
// mostly needs less to send them again.
constexpr Duration kStuckAfter = std::chrono::seconds(1);

// Returns null, and logs the reason, if OpenSSL does not accept the material.
std::shared_ptr<ssl::context> MakeContext(const TlsMaterial& material) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // Session resumption would need a context id if peers have certificates.
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_TICKET);
  error_code error;
  context->use_certificate_chain(net::buffer(material.cert), error);
  if (!error) context->use_private_key(net::buffer(material.key), ssl::context::pem, error);
  if (!error && !material.ca.empty()) {
    context->add_certificate_authority(net::buffer(material.ca), error);
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }
  if (!error) return context;
  Log(LogLevel::kError, "the TLS files do not serve HTTP", {{"reason", error.message()}});
  return nullptr;
}

}  // namespace

struct HttpServer::Impl final : ConnectionOwner {
  const HttpServerOptions& options() const override { return options_; }
  HttpHandler& handler() override { return *handler_; }
  bool stopping() const override { return stopping_; }
  bool draining() const override { return draining_; }
  BodyShare ShareFor(const std::string& peer) override { return {bodies, peer}; }
  void SetWait(HttpConnection* connection, ClientWait wait) override {
    MutexLock lock(mu);
    const auto held = connections.find(connection);
    if (held != connections.end()) SetWait(held->second, wait);
  }
  std::string NewRequestId() override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    return "req-" + std::to_string(seconds) + "-" + std::to_string(++named);
  }
  void CountAnswer(int change) override { answers += change; }
  void OnClosed(HttpConnection* connection) override {
    MutexLock lock(mu);
    const auto held = connections.find(connection);
    if (held == connections.end()) return;
    SetWait(held->second, ClientWait::kNone);
    connections.erase(held);
    if (connections.empty()) none.notify_all();
  }

  struct Held;
  struct Waiting {
    Held* held;
    ClientWait wait;
    Time since;
  };
  struct Held {
    std::weak_ptr<HttpConnection> connection;
    std::optional<std::list<Waiting>::iterator> waiting;  // its position in that list
  };

  void SetWait(Held& held, ClientWait wait) OUTRIDER_REQUIRES(mu) {
    if (held.waiting.has_value()) waiting.erase(*held.waiting);
    held.waiting.reset();
    if (wait == ClientWait::kNone) return;
    held.waiting = waiting.insert(waiting.end(), {&held, wait, std::chrono::steady_clock::now()});
  }
  void OnAccepted(tcp::socket socket);
  // A connection that makes room for another, and what it has waited for.
  struct Evicted {
    std::shared_ptr<HttpConnection> connection;
    ClientWait wait = ClientWait::kNone;
  };
  // Adds the connection. If there is no room, returns the one to close in its place; false: none
  // waits for its client.
  bool TakePlace(const std::shared_ptr<HttpConnection>& connection, Evicted* instead_of);
  std::vector<std::shared_ptr<HttpConnection>> Connections();
  // Returns when no connection is left, at the latest at `until`.
  void AwaitNone(Time until);

  HttpServerOptions options_;
  HttpHandler* handler_ = nullptr;
  net::io_context io{kThreads};
  // A connection may wait for the engine with no I/O operation of its own pending.
  net::executor_work_guard<net::io_context::executor_type> work{io.get_executor()};
  Listener listener{io};
  std::shared_ptr<const TlsMaterial> tls_material;  // from which tls_context was made
  std::shared_ptr<ssl::context> tls_context;
  std::shared_ptr<BodyBudget> bodies;
  std::vector<std::thread> threads;
  std::atomic<bool> draining_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> answers = 0;
  std::atomic<uint64_t> named = 0;  // requests that NewRequestId named
  Mutex mu;
  std::condition_variable none;
  std::map<HttpConnection*, Held> connections OUTRIDER_GUARDED_BY(mu);
  std::list<Waiting> waiting OUTRIDER_GUARDED_BY(mu);  // longest wait first
};

void HttpServer::Impl::OnAccepted(tcp::socket socket) {
  if (stopping_) return;
  if (options_.tls != nullptr) {
    auto material = options_.tls->Current();
    if (material != tls_material) {
      tls_material = std::move(material);
      if (auto context = MakeContext(*tls_material)) tls_context = std::move(context);
    }
    if (tls_context == nullptr) return;
  }
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  std::string peer = PeerOf(socket);
  const std::shared_ptr<HttpConnection> connection =
      MakeConnection(std::move(socket), std::move(peer), tls_context, this);
  Evicted instead_of;
  if (!TakePlace(connection, &instead_of)) return;
  if (instead_of.connection != nullptr) {
    if (instead_of.wait == ClientWait::kReading) {
      instead_of.connection->Drop();
    } else {
      instead_of.connection->EndSoon();  // its request may have come since
    }
  }
  connection->Start();
}

bool HttpServer::Impl::TakePlace(const std::shared_ptr<HttpConnection>& connection,
                                 Evicted* instead_of) {
  MutexLock lock(mu);
  if (static_cast<int>(connections.size()) >= options_.max_connections) {
    const Time stuck = std::chrono::steady_clock::now() - kStuckAfter;
    const auto longest = std::find_if(waiting.begin(), waiting.end(), [&](const Waiting& one) {
      return one.wait == ClientWait::kRequest || one.since <= stuck;
    });
    if (longest == waiting.end()) return false;
    *instead_of = {longest->held->connection.lock(), longest->wait};
    SetWait(*longest->held, ClientWait::kNone);
  }
  SetWait(connections[connection.get()] = {.connection = connection}, ClientWait::kRequest);
  return true;
}

std::vector<std::shared_ptr<HttpConnection>> HttpServer::Impl::Connections() {
  std::vector<std::shared_ptr<HttpConnection>> all;
  MutexLock lock(mu);
  for (const auto& [key, held] : connections) {
    if (auto connection = held.connection.lock()) all.push_back(std::move(connection));
  }
  return all;
}

void HttpServer::Impl::AwaitNone(Time until) {
  MutexLock lock(mu);
  while (!connections.empty()) {
    if (lock.WaitUntil(none, until) == std::cv_status::timeout) return;
  }
}

HttpServer::HttpServer() : impl_(std::make_unique<Impl>()) {}

HttpServer::~HttpServer() { Shutdown(Duration::zero()); }

Status HttpServer::Start(const HttpServerOptions& options, HttpHandler* handler) {
  impl_->options_ = options;
  impl_->handler_ = handler;
  impl_->bodies = std::make_shared<BodyBudget>(options.bodies);
  OUTRIDER_TRY(impl_->listener.Listen(options.listen, "--http"));
  impl_->listener.Start(
      [impl = impl_.get()](tcp::socket socket) { impl->OnAccepted(std::move(socket)); });
  for (int i = 0; i < kThreads; ++i) {
    impl_->threads.emplace_back([this] { impl_->io.run(); });
  }
  return Status();
}

int HttpServer::port() const { return impl_->listener.port(); }

size_t HttpServer::body_bytes() const { return impl_->bodies->held(); }

int HttpServer::answers() const { return impl_->answers; }

void HttpServer::Drain() {
  impl_->draining_ = true;
  for (const auto& connection : impl_->Connections()) connection->EndWhenIdle();
}

void HttpServer::Shutdown(Duration grace) {
  if (impl_->threads.empty()) return;
  impl_->draining_ = true;
  impl_->stopping_ = true;
  impl_->listener.Stop();
  for (const auto& connection : impl_->Connections()) connection->EndSoon();
  impl_->AwaitNone(std::chrono::steady_clock::now() + grace);
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
  for (const auto& connection : impl_->Connections()) connection->Abandon();
}

}  // namespace outrider
