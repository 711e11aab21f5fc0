#include "common/trace/tracer.h"

#include <unistd.h>

#include <memory>
#include <random>
#include <utility>

#include "common/base/version.h"

namespace outrider {

Attributes ResourceOf(const std::string& service, const std::string& instance) {
  return {{"service.name", service},
          {"service.version", std::string(kVersion)},
          {"service.instance.id", instance},
          {"process.pid", static_cast<int64_t>(getpid())}};
}

Tracer::~Tracer() { Close(); }

void Tracer::Close() {
  for (const auto& exporter : exporters_) exporter->BeginClose();
  for (const auto& exporter : exporters_) exporter->Close();
}

bool Tracer::Sample() const {
  if (sample_ratio_ >= 1) return true;
  if (sample_ratio_ <= 0) return false;
  std::random_device random;
  return std::generate_canonical<double, 32>(random) < sample_ratio_;
}

void Tracer::Record(std::vector<Span> spans) {
  const auto batch = std::make_shared<const std::vector<Span>>(std::move(spans));
  for (const auto& exporter : exporters_) exporter->Record(batch);
}

}  // namespace outrider
