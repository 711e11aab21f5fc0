#include "common/metrics/exporter.h"

#include <CivetServer.h>
#include <prometheus/collectable.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <iterator>
#include <list>
#include <utility>

#include "common/base/mutex.h"
#include "common/metrics/alias_view.h"

namespace outrider {
namespace {

// prometheus-cpp's own exposer has no room for other pages, so the server below it is used here.
constexpr char kThreads[] = "4";  // a scraper, viewers, and room for one that dawdles
constexpr char kRequestMs[] = "10000";

std::string HeadOf(const char* status, const MetricsPage& page) {
  std::string head = "HTTP/1.1 ";
  head.append(status).append("\r\nContent-Type: ").append(page.content_type);
  head.append("\r\nContent-Length: ").append(std::to_string(page.body.size()));
  head.append("\r\nConnection: close\r\n");
  for (const auto& [name, value] : page.headers) {
    head.append(name).append(": ").append(value).append("\r\n");
  }
  return head.append("\r\n");
}

class PageHandler final : public CivetHandler {
 public:
  PageHandler(std::string path, MetricsExporter::PageFn page)
      : path_(std::move(path)), page_(std::move(page)) {}

  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    return Answer(connection, true);
  }
  bool handleHead(CivetServer* /*server*/, mg_connection* connection) override {
    return Answer(connection, false);
  }

 private:
  bool Answer(mg_connection* connection, bool with_body) const {
    // The server hands over what is below the path, too.
    const mg_request_info* request = mg_get_request_info(connection);
    const bool found = request->local_uri != nullptr && path_ == request->local_uri;
    const MetricsPage page =
        found ? page_() : MetricsPage{.content_type = "text/plain", .body = "nothing is here\n"};
    std::string answer = HeadOf(found ? "200 OK" : "404 Not Found", page);
    if (with_body) answer += page.body;
    mg_write(connection, answer.data(), answer.size());
    return true;
  }

  const std::string path_;
  const MetricsExporter::PageFn page_;
};

}  // namespace

struct MetricsExporter::Server {
  explicit Server(const std::string& address)
      : civet(std::vector<std::string>{"listening_ports", address, "num_threads", kThreads,
                                       "request_timeout_ms", kRequestMs}) {}
  // No handler may run when they go.
  ~Server() { civet.close(); }

  Mutex mu;
  std::list<PageHandler> pages OUTRIDER_GUARDED_BY(mu);
  CivetServer civet;
};

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const std::string& address,
                                                                MetricsRegistry& registry,
                                                                MetricAliases aliases) {
  try {
    auto server = std::make_unique<Server>(address);
    const std::vector<int> ports = server->civet.getListeningPorts();
    if (!ports.empty()) {
      std::unique_ptr<MetricsExporter> exporter(
          new MetricsExporter(std::move(server), ports.front()));
      exporter->AddPage("/metrics", [all = registry.registry_,
                                     view = MakeAliasView(registry.registry_, std::move(aliases))] {
        std::vector<prometheus::MetricFamily> families = all->Collect();
        std::vector<prometheus::MetricFamily> others = view->Collect();
        families.insert(families.end(), std::make_move_iterator(others.begin()),
                        std::make_move_iterator(others.end()));
        return MetricsPage{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                           .body = prometheus::TextSerializer().Serialize(families)};
      });
      return exporter;
    }
  } catch (const std::exception&) {  // its text names neither the address nor the reason
  }
  return Unavailable("cannot serve metrics on " + address +
                     ": the address is malformed or taken; choose another one");
}

MetricsExporter::MetricsExporter(std::unique_ptr<Server> server, int port)
    : server_(std::move(server)), port_(port) {}
MetricsExporter::~MetricsExporter() = default;

void MetricsExporter::AddPage(const std::string& path, PageFn page) {
  MutexLock lock(server_->mu);
  server_->civet.addHandler(path, server_->pages.emplace_back(path, std::move(page)));
}

}  // namespace outrider
