#include "common/metrics/exporter.h"

#include <prometheus/collectable.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/metrics/alias_view.h"

namespace outrider {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = net::ip::tcp;

constexpr size_t kDiscardBytes = 4096;
// Before accepting again after it failed, as it does when the process has no file left.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

class Connection;
// Open connections, the oldest first. Of the exporter's thread, and of the owner once it has ended.
using Connections = std::list<std::shared_ptr<Connection>>;

struct Answer {
  http::status status = http::status::ok;
  MetricsPage page;
};

Answer TextAnswer(http::status status, std::string text) {
  return {status, {.content_type = "text/plain", .body = std::move(text)}};
}

// The pages by their paths.
class Pages {
 public:
  void Add(const std::string& path, MetricsExporter::PageFn page) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    pages_[path] = std::move(page);
  }

  Answer Find(const http::request<http::empty_body>& request) OUTRIDER_EXCLUDES(mu_) {
    const beast::string_view target = request.target();
    MetricsExporter::PageFn page;
    {
      MutexLock lock(mu_);
      const auto found = pages_.find(std::string(target.substr(0, target.find('?'))));
      if (found != pages_.end()) page = found->second;
    }
    if (page == nullptr) return TextAnswer(http::status::not_found, "nothing is here\n");
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      Answer answer = TextAnswer(http::status::method_not_allowed, "only GET and HEAD\n");
      answer.page.headers = {{"Allow", "GET, HEAD"}};
      return answer;
    }
    return {http::status::ok, page()};
  }

 private:
  Mutex mu_;
  std::map<std::string, MetricsExporter::PageFn> pages_ OUTRIDER_GUARDED_BY(mu_);
};

std::string ToBytes(const Answer& answer, bool with_body) {
  const MetricsPage& page = answer.page;
  const beast::string_view reason = http::obsolete_reason(answer.status);
  std::string out = "HTTP/1.1 " + std::to_string(static_cast<int>(answer.status)) + " ";
  out.append(reason.data(), reason.size()).append("\r\nContent-Type: ").append(page.content_type);
  out.append("\r\nContent-Length: ").append(std::to_string(page.body.size()));
  out.append("\r\nConnection: close\r\n");
  for (const auto& [name, value] : page.headers) {
    out.append(name).append(": ").append(value).append("\r\n");
  }
  out.append("\r\n");
  return with_body ? out + page.body : out;
}

// Reads one request, answers it and closes.
class Connection final : public std::enable_shared_from_this<Connection> {
  template <class... Args>
  auto Then(void (Connection::*member)(Args...)) {
    return beast::bind_front_handler(member, shared_from_this());
  }

 public:
  Connection(tcp::socket socket, Pages* pages, Connections* all)
      : stream_(std::move(socket)), pages_(pages), all_(all) {}

  // `self`: its place among all.
  void Start(Connections::iterator self) {
    self_ = self;
    parser_.header_limit(MetricsExporter::kMaxHeadBytes);
    stream_.expires_after(MetricsExporter::kConnectionTime);  // holds for all that follows
    http::async_read_header(stream_, buffer_, parser_, Then(&Connection::OnHead));
  }

  void Close() {
    if (!self_.has_value()) return;
    stream_.close();
    const Connections::iterator self = *self_;
    self_.reset();
    all_->erase(self);  // a handler that is still to run keeps the connection
  }

 private:
  void OnHead(error_code error, size_t /*bytes*/) {
    if (!error) {
      Send(pages_->Find(parser_.get()), parser_.get().method() != http::verb::head);
    } else if (error == http::error::header_limit) {
      Send(TextAnswer(http::status::request_header_fields_too_large, error.message() + "\n"), true);
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      Send(TextAnswer(http::status::bad_request, error.message() + "\n"), true);
    } else {
      Close();
    }
  }

  void Send(const Answer& answer, bool with_body) {
    out_ = ToBytes(answer, with_body);
    net::async_write(stream_, net::buffer(out_), Then(&Connection::OnSent));
  }
  void OnSent(error_code error, size_t /*bytes*/) {
    if (error) return Close();
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    Discard();
  }

  // Throws away what still comes until the peer closes too: closing at once would reset the
  // connection, and the answer with it.
  void Discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kDiscardBytes), Then(&Connection::OnDiscarded));
  }
  void OnDiscarded(error_code error, size_t /*bytes*/) {
    if (error) return Close();
    Discard();
  }

  beast::tcp_stream stream_;
  Pages* const pages_;
  Connections* const all_;
  std::optional<Connections::iterator> self_;  // none: closed
  beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  std::string out_;
};

}  // namespace

class MetricsExporter::Server {
 public:
  ~Server() {
    if (!thread_.joinable()) return;
    net::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel(ignored);
      while (!connections_.empty()) connections_.front()->Close();
    });
    thread_.join();
  }

  // The port; 0: the address cannot be taken.
  int Start(const std::string& address) {
    if (Listen(address)) return 0;
    error_code error;
    const int port = acceptor_.local_endpoint(error).port();
    Accept();
    thread_ = std::thread([this] { io_.run(); });
    return port;
  }

  Pages& pages() { return pages_; }

 private:
  error_code Listen(const std::string& address) {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos) return net::error::invalid_argument;
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    error_code error;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(host, address.substr(colon + 1), tcp::resolver::passive, error);
    if (error) return error;
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    return error;
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        OnAccepted(std::move(socket));
        return Accept();
      }
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code stopped) {
        if (!stopped) Accept();
      });
    });
  }

  void OnAccepted(tcp::socket socket) {
    if (connections_.size() >= kMaxConnections) connections_.front()->Close();
    connections_.push_back(std::make_shared<Connection>(std::move(socket), &pages_, &connections_));
    connections_.back()->Start(std::prev(connections_.end()));
  }

  Pages pages_;
  net::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  net::steady_timer pause_{io_};
  Connections connections_;
  std::thread thread_;
};

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const std::string& address,
                                                                MetricsRegistry& registry,
                                                                MetricAliases aliases) {
  auto server = std::make_unique<Server>();
  server->pages().Add("/metrics", [all = registry.registry_,
                                   view = MakeAliasView(registry.registry_, std::move(aliases))] {
    std::vector<prometheus::MetricFamily> families = all->Collect();
    std::vector<prometheus::MetricFamily> others = view->Collect();
    families.insert(families.end(), std::make_move_iterator(others.begin()),
                    std::make_move_iterator(others.end()));
    return MetricsPage{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                       .body = prometheus::TextSerializer().Serialize(families)};
  });
  const int port = server->Start(address);
  if (port == 0) {
    return Unavailable("cannot serve metrics on " + address +
                       ": the address is malformed or taken; choose another one");
  }
  return std::unique_ptr<MetricsExporter>(new MetricsExporter(std::move(server), port));
}

MetricsExporter::MetricsExporter(std::unique_ptr<Server> server, int port)
    : server_(std::move(server)), port_(port) {}
MetricsExporter::~MetricsExporter() = default;

void MetricsExporter::AddPage(const std::string& path, PageFn page) {
  server_->pages().Add(path, std::move(page));
}

}  // namespace outrider
