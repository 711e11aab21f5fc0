#include "common/ranks/start_messages.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/model/model_fingerprint.h"

namespace outrider {
namespace {

void AppendBytes(std::span<const std::byte> bytes, std::vector<int32_t>* message) {
  const size_t first = message->size();
  message->push_back(static_cast<int32_t>(bytes.size()));
  message->resize(first + 1 + (bytes.size() + sizeof(int32_t) - 1) / sizeof(int32_t));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(*message).subspan(first + 1)).begin());
}

// The bytes that AppendBytes has put at word `first`.
std::span<const std::byte> BytesAt(std::span<const int32_t> message, size_t first) {
  OUTRIDER_CHECK(first < message.size());
  const auto bytes = static_cast<size_t>(message[first]);
  const std::span<const std::byte> rest = std::as_bytes(message.subspan(first + 1));
  OUTRIDER_CHECK(bytes <= rest.size());
  return rest.first(bytes);
}

std::string TextAt(std::span<const int32_t> message, size_t first) {
  const std::span<const std::byte> bytes = BytesAt(message, first);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::string> DescribeRanks(const std::filesystem::path& directory,
                                  const ModelOptions& options, Backend& backend) {
  OUTRIDER_ASSIGN(const uint64_t fingerprint, ModelFingerprint(directory));
  DeviceOps* const device = backend.device();
  return "checkpoint " + std::to_string(fingerprint) + ", weights " +
         WeightTypeName(options.weights) + ", KV cache " + KvTypeName(options.kv) + ", pages of " +
         std::to_string(options.page_tokens) + " tokens, passes of " +
         std::to_string(options.max_batch_tokens) + " rows, device " +
         (device != nullptr ? device->Kind() : "cpu");
}

std::vector<int32_t> RankAssignment::Encode() const {
  std::vector<int32_t> message = {shard.rank, shard.ranks};
  AppendBytes(std::as_bytes(std::span(agreed)), &message);
  return message;
}

RankAssignment RankAssignment::Decode(std::span<const int32_t> message) {
  OUTRIDER_CHECK(message.size() >= 2);
  return {{message[0], message[1]}, TextAt(message, 2)};
}

std::vector<int32_t> RankReport::Encode() const {
  std::vector<int32_t> message = {static_cast<int32_t>(status.code()), pages};
  AppendBytes(std::as_bytes(std::span(status.message())), &message);
  return message;
}

RankReport RankReport::Decode(std::span<const int32_t> message) {
  OUTRIDER_CHECK(message.size() >= 2);
  RankReport report;
  const auto code = static_cast<Code>(message[0]);
  if (code != Code::kOk) report.status = Status(code, TextAt(message, 2));
  report.pages = message[1];
  return report;
}

std::vector<int32_t> RankStart::Encode() const {
  std::vector<int32_t> message = {pages};
  AppendBytes(std::as_bytes(std::span(group)), &message);
  return message;
}

RankStart RankStart::Decode(std::span<const int32_t> message) {
  OUTRIDER_CHECK(!message.empty());
  const std::span<const std::byte> group = BytesAt(message, 1);
  return {message[0], {group.begin(), group.end()}};
}

}  // namespace outrider
