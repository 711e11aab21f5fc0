#include "verifier/http/server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <map>
#include <thread>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "verifier/http/connection.h"

namespace outrider {
namespace {

using boost::system::error_code;
using tcp = net::ip::tcp;

constexpr int kThreads = 4;
// How long Shutdown waits for requests in the handler's hands.
constexpr auto kJoinPatience = std::chrono::seconds(1);

struct Address {
  std::string host;
  std::string port;
};

// "host:port" or "[host]:port".
std::optional<Address> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return std::nullopt;
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return Address{std::move(host), address.substr(colon + 1)};
}

// Whom BodyBudget counts as one: who has an IPv6 address mostly has its whole network of 64 bits.
std::string PeerOf(const tcp::socket& socket) {
  error_code error;
  net::ip::address address = socket.remote_endpoint(error).address();
  if (error) return "";
  if (address.is_v4()) return address.to_string();
  net::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return net::ip::make_address_v4(net::ip::v4_mapped, v6).to_string();
  const auto bytes = v6.to_bytes();
  return {bytes.begin(), bytes.begin() + 8};
}

// Null, with words in the log, for material that OpenSSL does not take.
std::shared_ptr<ssl::context> MakeContext(const TlsMaterial& material) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // A resumed session would need a context id where peers show certificates.
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
  explicit Impl() : acceptor(io), pause(io) {}

  const HttpServerOptions& options() const override { return options_; }
  HttpHandler& handler() override { return *handler_; }
  bool stopping() const override { return stopping_; }
  BodyShare ShareFor(const std::string& peer) override { return {bodies, peer}; }
  void Forget(HttpConnection* connection) override {
    MutexLock lock(mu);
    connections.erase(connection);
    if (connections.empty()) none.notify_all();
  }

  Status Listen();
  void Accept();
  void OnAccepted(tcp::socket socket);
  std::vector<std::shared_ptr<HttpConnection>> Connections();
  // False: somebody still was connected at `until`.
  bool AwaitNone(Time until);
  // False: a thread still ran at `until`.
  bool AwaitThreads(Time until);
  void RunThread();
  // Waits for the threads, and closes what they have left.
  void Join();

  HttpServerOptions options_;
  HttpHandler* handler_ = nullptr;
  net::io_context io{kThreads};
  // A connection may wait for the engine alone, with no operation of its own under way.
  net::executor_work_guard<net::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor;
  net::steady_timer pause;                          // when the process has no descriptor left
  std::shared_ptr<const TlsMaterial> tls_material;  // what tls_context was made of
  std::shared_ptr<ssl::context> tls_context;
  std::shared_ptr<BodyBudget> bodies;
  std::vector<std::thread> threads;
  std::atomic<bool> stopping_ = false;
  Mutex mu;
  std::condition_variable none;
  std::map<HttpConnection*, std::weak_ptr<HttpConnection>> connections OUTRIDER_GUARDED_BY(mu);
  int running_threads OUTRIDER_GUARDED_BY(mu) = 0;
  std::condition_variable thread_ended;
};

Status HttpServer::Impl::Listen() {
  const auto refuse = [&](const std::string& why) {
    return Unavailable("cannot listen on " + options_.listen + ": " + why +
                       "; choose another --http");
  };
  const std::optional<Address> address = SplitAddress(options_.listen);
  if (!address.has_value()) return refuse("not host:port");
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(address->host, address->port, tcp::resolver::passive, error);
  if (error || found.empty()) return refuse(error.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  return error ? refuse(error.message()) : Status();
}

void HttpServer::Impl::Accept() {
  acceptor.async_accept(net::make_strand(io), [this](error_code error, tcp::socket socket) {
    if (stopping_ || error == net::error::operation_aborted) return;
    if (!error) {
      OnAccepted(std::move(socket));
      Accept();
      return;
    }
    pause.expires_after(std::chrono::milliseconds(100));
    pause.async_wait([this](error_code stopped) {
      if (!stopped) Accept();
    });
  });
}

void HttpServer::Impl::OnAccepted(tcp::socket socket) {
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
  {
    MutexLock lock(mu);
    if (static_cast<int>(connections.size()) >= options_.max_connections) return;
    connections.emplace(connection.get(), connection);
  }
  connection->Start();
}

std::vector<std::shared_ptr<HttpConnection>> HttpServer::Impl::Connections() {
  std::vector<std::shared_ptr<HttpConnection>> all;
  MutexLock lock(mu);
  for (const auto& [key, weak] : connections) {
    if (auto connection = weak.lock()) all.push_back(std::move(connection));
  }
  return all;
}

bool HttpServer::Impl::AwaitNone(Time until) {
  MutexLock lock(mu);
  while (!connections.empty()) {
    if (lock.WaitUntil(none, until) == std::cv_status::timeout) return connections.empty();
  }
  return true;
}

bool HttpServer::Impl::AwaitThreads(Time until) {
  MutexLock lock(mu);
  while (running_threads > 0) {
    if (lock.WaitUntil(thread_ended, until) == std::cv_status::timeout) return running_threads == 0;
  }
  return true;
}

void HttpServer::Impl::Join() {
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  for (const auto& connection : Connections()) connection->Abandon();
}

void HttpServer::Impl::RunThread() {
  io.run();
  MutexLock lock(mu);
  --running_threads;
  thread_ended.notify_all();
}

HttpServer::HttpServer() : impl_(std::make_unique<Impl>()) {}

HttpServer::~HttpServer() {
  if (!Shutdown(Duration::zero())) impl_->Join();
}

Status HttpServer::Start(const HttpServerOptions& options, HttpHandler* handler) {
  impl_->options_ = options;
  impl_->handler_ = handler;
  impl_->bodies = std::make_shared<BodyBudget>(options.bodies);
  OUTRIDER_TRY(impl_->Listen());
  impl_->Accept();
  {
    MutexLock lock(impl_->mu);
    impl_->running_threads = kThreads;
  }
  for (int i = 0; i < kThreads; ++i) {
    impl_->threads.emplace_back([this] { impl_->RunThread(); });
  }
  return Status();
}

int HttpServer::port() const {
  error_code ignored;
  return impl_->acceptor.local_endpoint(ignored).port();
}

size_t HttpServer::body_bytes() const { return impl_->bodies->held(); }

bool HttpServer::Shutdown(Duration grace) {
  if (impl_->threads.empty()) return true;
  impl_->stopping_ = true;
  net::post(impl_->io, [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->pause.cancel(ignored);
  });
  for (const auto& connection : impl_->Connections()) connection->EndSoon();
  impl_->AwaitNone(std::chrono::steady_clock::now() + grace);
  impl_->io.stop();
  if (!impl_->AwaitThreads(std::chrono::steady_clock::now() + kJoinPatience)) return false;
  impl_->Join();
  return true;
}

}  // namespace outrider
