// Answers Prometheus's scrapes: plain HTTP, GET /metrics, and pages for people and probes.
//
// One thread serves all connections. At most kMaxConnections are open: a new one closes the oldest,
// whatever that is waiting for, and none lives longer than kConnectionTime. So a probe is answered
// at once beside any number of connections that are silent, half-sent or not read.
//
// Thread: has its own; start and destroy it from one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/metrics/registry.h"

namespace outrider {

struct MetricsPage {
  int status = 200;  // HTTP's
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body;
};

class MetricsExporter {
 public:
  static constexpr int kMaxConnections = 128;
  static constexpr uint32_t kMaxHeadBytes = 8 << 10;
  // From accept to close: each connection carries one request.
  static constexpr Duration kConnectionTime = std::chrono::seconds(10);

  // Called from the exporter's thread, and must not block.
  using PageFn = std::function<MetricsPage()>;

  // The answer to GET /metrics, with metrics also under their names in `aliases`. For other servers
  // that show it; may be called from any thread.
  static PageFn MetricsOf(MetricsRegistry& registry, MetricAliases aliases = {});

  // `address`: see Listener::Listen. The registry may be filled before and after.
  static Result<std::unique_ptr<MetricsExporter>> Start(const std::string& address,
                                                        MetricsRegistry& registry,
                                                        MetricAliases aliases = {});
  ~MetricsExporter();

  // From now on `page` answers GET `path` (exact match). Thread: any.
  void AddPage(const std::string& path, PageFn page);

  int port() const;

 private:
  class Server;

  explicit MetricsExporter(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace outrider
