// What the leading rank and another say to each other until the model is loaded, in this order:
// RankAssignment, RankReport (its device is there), RankReport (its weights are loaded, and what
// joining needs is there), RankStart, RankReport (it follows). After a report of an error, there is
// nothing more to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/shard.h"
#include "common/model/transformer.h"

namespace outrider {

// What all ranks must agree on, as text, so that a difference can be shown: the checkpoint in
// `directory`, the options, and the kind of the device.
Result<std::string> DescribeRanks(const std::filesystem::path& directory,
                                  const ModelOptions& options, Backend& backend);

struct RankAssignment {
  Shard shard;
  std::string agreed;  // DescribeRanks

  std::vector<int32_t> Encode() const;
  static RankAssignment Decode(std::span<const int32_t> message);
};

struct RankReport {
  Status status;
  int pages = 0;  // of the KV cache that the rank has room for

  std::vector<int32_t> Encode() const;
  static RankReport Decode(std::span<const int32_t> message);
};

struct RankStart {
  int pages = 0;                 // of the KV cache on every rank
  std::vector<std::byte> group;  // DeviceOps::NewGroup; empty: the ranks have no devices

  std::vector<int32_t> Encode() const;
  static RankStart Decode(std::span<const int32_t> message);
};

}  // namespace outrider
