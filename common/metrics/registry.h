// The metrics of a process. Handles are made once, at start-up, with their labels resolved; what
// runs per token or step is an atomic add (Counter, Gauge) or a short uncontended lock (Histogram).
//
// Owner: main; passed to code that registers metrics. Outlives all its handles.
// Thread: any.
// Names and labels are our constants: a bad name, or one name with two types, is a bug (CHECK).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace outrider {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Other names for metrics, any number for each, and additional labels under these names.
struct MetricAliases {
  std::multimap<std::string, std::string> names;
  MetricLabels labels;
};

// Handles are small values that can be copied.
class Counter {
 public:
  void Increment(double amount = 1);  // amount >= 0
  double value() const;

 private:
  friend class MetricsRegistry;
  explicit Counter(prometheus::Counter* counter) : counter_(counter) {}
  prometheus::Counter* counter_;
};

class Gauge {
 public:
  void Set(double value);
  void Add(double amount);
  double value() const;

 private:
  friend class MetricsRegistry;
  explicit Gauge(prometheus::Gauge* gauge) : gauge_(gauge) {}
  prometheus::Gauge* gauge_;
};

class Histogram {
 public:
  void Observe(double value);
  // How many values were observed.
  uint64_t count() const;
  // Their sum.
  double sum() const;

 private:
  friend class MetricsRegistry;
  explicit Histogram(prometheus::Histogram* histogram) : histogram_(histogram) {}
  prometheus::Histogram* histogram_;
};

class ReadMetrics;

class MetricsRegistry {
 public:
  // `labels`: of every metric that it makes.
  explicit MetricsRegistry(MetricLabels labels = {});
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // The same name and labels return the same metric; the same name with other labels returns
  // another metric of the same family.
  Counter MakeCounter(const std::string& name, const std::string& help,
                      const MetricLabels& labels = {});
  Gauge MakeGauge(const std::string& name, const std::string& help,
                  const MetricLabels& labels = {});
  // `buckets`: ascending upper bounds; infinity is added.
  Histogram MakeHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& buckets, const MetricLabels& labels = {});

  // Metrics whose value `read` gives at each scrape; they have no labels but `labels`. Thread of
  // `read`: those that answer scrapes; it must not block. A name can be taken once.
  using ReadFn = std::function<double()>;
  void AddCounter(const std::string& name, const std::string& help, ReadFn read,
                  const MetricLabels& labels = {});
  void AddGauge(const std::string& name, const std::string& help, ReadFn read,
                const MetricLabels& labels = {});

  // Every registered name, sorted.
  std::vector<std::string> Names() const;

 private:
  friend class MetricsExporter;
  const MetricLabels labels_;
  const std::shared_ptr<prometheus::Registry> registry_;
  const std::shared_ptr<ReadMetrics> read_;  // those of AddCounter and AddGauge
};

// Bounds from 1 ms to 10 min: the time of a request or one of its phases.
std::vector<double> RequestSecondsBuckets();
// Bounds from 0.1 ms to 5 s: the time of a forward pass or a token.
std::vector<double> StepSecondsBuckets();
// Bounds 1, 2, 5, 10, 20 and so on up to half a million: tokens of a request.
std::vector<double> TokenCountBuckets();
// Powers of two from 1 to 1024: token rows of a forward pass.
std::vector<double> RowCountBuckets();

}  // namespace outrider
