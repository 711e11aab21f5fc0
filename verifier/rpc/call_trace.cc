#include "verifier/rpc/call_trace.h"

#include <string_view>
#include <utility>
#include <vector>

namespace outrider {
namespace {

std::vector<std::string_view> ValuesOf(const grpc::ServerContextBase& context, const char* key) {
  std::vector<std::string_view> values;
  const auto [begin, end] = context.client_metadata().equal_range(key);
  for (auto it = begin; it != end; ++it) values.emplace_back(it->second.data(), it->second.size());
  return values;
}

class TracedSink final : public GenerationSink {
 public:
  TracedSink(std::shared_ptr<GenerationSink> sink, std::shared_ptr<RequestTrace> span)
      : sink_(std::move(sink)), span_(std::move(span)) {}

  void Send(Chunk chunk) override { sink_->Send(std::move(chunk)); }
  void Finish(const Summary& summary) override {
    span_->Add(summary);
    EndSpan(span_, Status());
    sink_->Finish(summary);
  }
  void Fail(const Status& status) override {
    EndSpan(span_, status);
    sink_->Fail(status);
  }

 private:
  const std::shared_ptr<GenerationSink> sink_;
  const std::shared_ptr<RequestTrace> span_;
};

}  // namespace

std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context) {
  return ReadTraceHeaders(ValuesOf(context, "traceparent"), ValuesOf(context, "tracestate"));
}

void EndSpan(const std::shared_ptr<RequestTrace>& span, const Status& status) {
  if (span == nullptr) return;
  span->End(status, {{"rpc.grpc.status_code", static_cast<int64_t>(status.code())}});
}

std::shared_ptr<GenerationSink> Traced(std::shared_ptr<GenerationSink> sink,
                                       std::shared_ptr<RequestTrace> span) {
  if (span == nullptr) return sink;
  return std::make_shared<TracedSink>(std::move(sink), std::move(span));
}

}  // namespace outrider
