#include "common/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/check.h"
#include "common/metrics/read_metrics.h"

namespace outrider {
namespace {

prometheus::Labels Together(const MetricLabels& all, const MetricLabels& own) {
  prometheus::Labels labels(own.begin(), own.end());
  labels.insert(all.begin(), all.end());
  return labels;
}

// The library throws for malformed or conflicting names. Those are constants in our code, so this
// is a bug.
template <class Register>
auto* CheckedRegister(const Register& registration) {
  decltype(registration()) metric = nullptr;
  try {
    metric = registration();
  } catch (const std::exception&) {
  }
  OUTRIDER_CHECK(metric != nullptr && "malformed or clashing metric name or labels");
  return metric;
}

}  // namespace

void Counter::Increment(double amount) { counter_->Increment(amount); }
double Counter::value() const { return counter_->Value(); }

void Gauge::Set(double value) { gauge_->Set(value); }
void Gauge::Add(double amount) { gauge_->Increment(amount); }
double Gauge::value() const { return gauge_->Value(); }

void Histogram::Observe(double value) { histogram_->Observe(value); }
uint64_t Histogram::count() const { return histogram_->Collect().histogram.sample_count; }

double Histogram::sum() const { return histogram_->Collect().histogram.sample_sum; }

MetricsRegistry::MetricsRegistry(MetricLabels labels)
    : labels_(std::move(labels)),
      registry_(std::make_shared<prometheus::Registry>()),
      read_(std::make_shared<ReadMetrics>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::MakeCounter(const std::string& name, const std::string& help,
                                     const MetricLabels& labels) {
  return Counter(CheckedRegister([&] {
    return &prometheus::BuildCounter()
                .Name(name)
                .Help(help)
                .Register(*registry_)
                .Add(Together(labels_, labels));
  }));
}

Gauge MetricsRegistry::MakeGauge(const std::string& name, const std::string& help,
                                 const MetricLabels& labels) {
  return Gauge(CheckedRegister([&] {
    return &prometheus::BuildGauge()
                .Name(name)
                .Help(help)
                .Register(*registry_)
                .Add(Together(labels_, labels));
  }));
}

Histogram MetricsRegistry::MakeHistogram(const std::string& name, const std::string& help,
                                         const std::vector<double>& buckets,
                                         const MetricLabels& labels) {
  return Histogram(CheckedRegister([&] {
    return &prometheus::BuildHistogram()
                .Name(name)
                .Help(help)
                .Register(*registry_)
                .Add(Together(labels_, labels), buckets);
  }));
}

void MetricsRegistry::AddCounter(const std::string& name, const std::string& help, ReadFn read,
                                 const MetricLabels& labels) {
  read_->Add(
      {.name = name, .help = help, .labels = labels, .counter = true, .read = std::move(read)});
}

void MetricsRegistry::AddGauge(const std::string& name, const std::string& help, ReadFn read,
                               const MetricLabels& labels) {
  read_->Add(
      {.name = name, .help = help, .labels = labels, .counter = false, .read = std::move(read)});
}

std::vector<std::string> MetricsRegistry::Names() const {
  std::vector<std::string> names;
  for (const prometheus::MetricFamily& family : registry_->Collect()) names.push_back(family.name);
  for (const ReadMetrics::Metric& metric : read_->All()) names.push_back(metric.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<double> RequestSecondsBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
          1,     2.5,    5,     10,   30,    60,   120, 300,  600};
}

std::vector<double> StepSecondsBuckets() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5};
}

std::vector<double> TokenCountBuckets() {
  std::vector<double> bounds;
  for (double decade = 1; decade <= 100'000; decade *= 10) {
    for (const double step : {1, 2, 5}) bounds.push_back(step * decade);
  }
  return bounds;
}

std::vector<double> RowCountBuckets() { return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}; }

}  // namespace outrider
