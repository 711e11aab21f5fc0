#include "verifier/rpc/call_record.h"

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

class RecordedSink final : public GenerationSink {
 public:
  RecordedSink(std::shared_ptr<GenerationSink> sink, std::shared_ptr<RequestRecord> record)
      : sink_(std::move(sink)), record_(std::move(record)) {}

  void Send(Chunk chunk) override {
    record_->Add(chunk);
    sink_->Send(std::move(chunk));
  }
  void Finish(const Summary& summary) override {
    record_->Add(summary);
    EndRecord(*record_, Status());
    sink_->Finish(summary);
  }
  void Fail(const Status& status) override {
    EndRecord(*record_, status);
    sink_->Fail(status);
  }

 private:
  const std::shared_ptr<GenerationSink> sink_;
  const std::shared_ptr<RequestRecord> record_;
};

}  // namespace

std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context) {
  return ReadTraceHeaders(ValuesOf(context, "traceparent"), ValuesOf(context, "tracestate"));
}

std::string RequestIdOf(const grpc::ServerContextBase& context) {
  const std::vector<std::string_view> values = ValuesOf(context, "x-request-id");
  return values.size() == 1 && IsRequestId(values[0]) ? std::string(values[0]) : "";
}

void EndRecord(RequestRecord& record, const Status& status) {
  record.End(status, {{"rpc.grpc.status_code", static_cast<int64_t>(status.code())}});
}

std::shared_ptr<GenerationSink> Recorded(std::shared_ptr<GenerationSink> sink,
                                         std::shared_ptr<RequestRecord> record) {
  return std::make_shared<RecordedSink>(std::move(sink), std::move(record));
}

}  // namespace outrider
