// Limits how often the same line may be logged: kBurst at once, then one per kRefill. What a peer
// can cause a million times must neither fill a disk nor hide the other lines.
//
// Lines are the same if they have the same message; their fields may differ. Beyond kMaxMessages
// different messages, more than the programs have, all others count as one.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace outrider {

class LineLimiter {
 public:
  static constexpr int kBurst = 20;
  static constexpr Duration kRefill = std::chrono::seconds(1);
  static constexpr size_t kMaxMessages = 512;

  // nullopt: do not write this line. Otherwise write it, with the number of suppressed lines of
  // this message since the last written one. `now` never decreases.
  std::optional<uint64_t> Admit(std::string_view message, Time now);

 private:
  // A token bucket.
  struct Bucket {
    int tokens = kBurst;
    Time refilled;  // when `tokens` was last updated
    uint64_t left_out = 0;
  };
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace outrider
