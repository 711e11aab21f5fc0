// Answers Prometheus's scrapes: plain HTTP, GET /metrics; and pages for people beside it.
//
// Thread: has its own; start and destroy it from one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/metrics/registry.h"

namespace outrider {

struct MetricsPage {
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body;
};

class MetricsExporter {
 public:
  // Called from the exporter's threads, and must not wait.
  using PageFn = std::function<MetricsPage()>;

  // `address`: "host:port"; port 0 takes a free one. kUnavailable when it cannot be taken. The
  // registry may be filled before and after. Metrics that have `aliases` are shown by those too.
  static Result<std::unique_ptr<MetricsExporter>> Start(const std::string& address,
                                                        MetricsRegistry& registry,
                                                        MetricAliases aliases = {});
  ~MetricsExporter();

  // GET `path`, exactly, is answered by `page` from now on.
  void AddPage(const std::string& path, PageFn page);

  int port() const { return port_; }

 private:
  struct Server;

  MetricsExporter(std::unique_ptr<Server> server, int port);

  const std::unique_ptr<Server> server_;
  const int port_;
};

}  // namespace outrider
