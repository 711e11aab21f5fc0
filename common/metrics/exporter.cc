#include "common/metrics/exporter.h"

#include <prometheus/collectable.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
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
#include "common/metrics/read_metrics.h"
#include "common/net/listener.h"

namespace outrider {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = net::ip::tcp;

constexpr size_t kDiscardBytes = 4096;

class Connection;
// Open connections, the oldest first. Used by the exporter's thread, and by the owner after its
// end.
using Connections = std::list<std::shared_ptr<Connection>>;

MetricsPage TextPage(http::status status, std::string text) {
  return {
      .status = static_cast<int>(status), .content_type = "text/plain", .body = std::move(text)};
}

// The pages by their paths.
class Pages {
 public:
  void Add(const std::string& path, MetricsExporter::PageFn page) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    pages_[path] = std::move(page);
  }

  MetricsPage Find(const http::request<http::empty_body>& request) OUTRIDER_EXCLUDES(mu_) {
    const beast::string_view target = request.target();
    MetricsExporter::PageFn page;
    std::string paths;
    {
      MutexLock lock(mu_);
      const auto found = pages_.find(std::string(target.substr(0, target.find('?'))));
      if (found != pages_.end()) {
        page = found->second;
      } else {
        for (const auto& [path, answer] : pages_) paths += (paths.empty() ? "" : ", ") + path;
      }
    }
    if (page == nullptr) {
      return TextPage(http::status::not_found, "nothing is here; there are " + paths + "\n");
    }
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      MetricsPage refusal = TextPage(http::status::method_not_allowed, "only GET and HEAD\n");
      refusal.headers = {{"Allow", "GET, HEAD"}};
      return refusal;
    }
    return page();
  }

 private:
  Mutex mu_;
  std::map<std::string, MetricsExporter::PageFn> pages_ OUTRIDER_GUARDED_BY(mu_);
};

std::string ToBytes(const MetricsPage& page, bool with_body) {
  const beast::string_view reason = http::obsolete_reason(http::int_to_status(page.status));
  std::string out = "HTTP/1.1 " + std::to_string(page.status) + " ";
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

  // `self`: its position in the list.
  void Start(Connections::iterator self) {
    self_ = self;
    parser_.header_limit(MetricsExporter::kMaxHeadBytes);
    stream_.expires_after(MetricsExporter::kConnectionTime);  // applies to all that follows
    http::async_read_header(stream_, buffer_, parser_, Then(&Connection::OnHead));
  }

  void Close() {
    if (!self_.has_value()) return;
    stream_.close();
    const Connections::iterator self = *self_;
    self_.reset();
    all_->erase(self);  // a pending handler keeps the connection alive
  }

 private:
  void OnHead(error_code error, size_t /*bytes*/) {
    if (!error) {
      Send(pages_->Find(parser_.get()), parser_.get().method() != http::verb::head);
    } else if (error == http::error::header_limit) {
      Send(TextPage(http::status::request_header_fields_too_large, error.message() + "\n"), true);
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      Send(TextPage(http::status::bad_request, error.message() + "\n"), true);
    } else {
      Close();
    }
  }

  void Send(const MetricsPage& page, bool with_body) {
    out_ = ToBytes(page, with_body);
    net::async_write(stream_, net::buffer(out_), Then(&Connection::OnSent));
  }
  void OnSent(error_code error, size_t /*bytes*/) {
    if (error) return Close();
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    Discard();
  }

  // Discards what still arrives until the peer closes as well: closing at once would reset the
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
    listener_.Stop();
    net::post(io_, [this] {
      while (!connections_.empty()) connections_.front()->Close();
    });
    thread_.join();
  }

  Status Start(const std::string& address) {
    OUTRIDER_TRY(listener_.Listen(address, "--metrics"));
    listener_.Start([this](tcp::socket socket) { OnAccepted(std::move(socket)); });
    thread_ = std::thread([this] { io_.run(); });
    return Status();
  }

  int port() const { return listener_.port(); }
  Pages& pages() { return pages_; }

 private:
  void OnAccepted(tcp::socket socket) {
    if (connections_.size() >= kMaxConnections) connections_.front()->Close();
    connections_.push_back(std::make_shared<Connection>(std::move(socket), &pages_, &connections_));
    connections_.back()->Start(std::prev(connections_.end()));
  }

  Pages pages_;
  net::io_context io_{1};
  Listener listener_{io_};
  Connections connections_;
  std::thread thread_;
};

MetricsExporter::PageFn MetricsExporter::MetricsOf(MetricsRegistry& registry,
                                                   MetricAliases aliases) {
  const std::vector<std::shared_ptr<prometheus::Collectable>> sources = {
      registry.registry_, MakeReadView(registry.read_),
      MakeAliasView(registry.registry_, std::move(aliases))};
  return [sources] {
    std::vector<prometheus::MetricFamily> families;
    for (const auto& source : sources) {
      std::vector<prometheus::MetricFamily> some = source->Collect();
      families.insert(families.end(), std::make_move_iterator(some.begin()),
                      std::make_move_iterator(some.end()));
    }
    return MetricsPage{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                       .body = prometheus::TextSerializer().Serialize(families)};
  };
}

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const std::string& address,
                                                                MetricsRegistry& registry,
                                                                MetricAliases aliases) {
  auto server = std::make_unique<Server>();
  server->pages().Add("/metrics", MetricsOf(registry, std::move(aliases)));
  OUTRIDER_TRY(server->Start(address));
  return std::unique_ptr<MetricsExporter>(new MetricsExporter(std::move(server)));
}

MetricsExporter::MetricsExporter(std::unique_ptr<Server> server) : server_(std::move(server)) {}
MetricsExporter::~MetricsExporter() = default;

int MetricsExporter::port() const { return server_->port(); }

void MetricsExporter::AddPage(const std::string& path, PageFn page) {
  server_->pages().Add(path, std::move(page));
}

}  // namespace outrider
