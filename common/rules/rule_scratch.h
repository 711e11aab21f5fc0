// A rule's working memory for one round, allocated as a single block on the host or on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "common/math/host_device.h"
#include "common/math/kseq.h"

namespace outrider {

// D = depth of the draft, at least 1; M = entries of its largest draft distribution.
struct RuleScratch {
  double* p;                 // [D + 1] along a path
  double* overlap;           // [kShareSteps + 1]
  double* weights;           // [D, M] distributions along a path
  double* by_kseq;           // [M]
  double* by_ratio;          // [M]
  RatioEntry* entries;       // [M]
  RatioEntry* ranked;        // [M]
  float* target_at_entries;  // [M] for sampling the next token on a GPU
  TokenId* ids;              // [D, M] of `weights`
  int32_t* nodes;            // [D + 1] along a path
  int64_t max_entries;       // M

  // A multiple of 8.
  static int64_t Bytes(int64_t depth, int64_t max_entries) {
    const int64_t doubles = depth + 1 + kShareSteps + 1 + max_entries * (depth + 2);
    const int64_t words = max_entries + depth * max_entries + depth + 1;
    return 8 * doubles + 2 * int64_t{sizeof(RatioEntry)} * max_entries + (4 * words + 7) / 8 * 8;
  }
  // `at`: Bytes(depth, max_entries) bytes, aligned to 8.
  OUTRIDER_HD RuleScratch(unsigned char* at, int64_t depth, int64_t most) : max_entries(most) {
    p = reinterpret_cast<double*>(at);
    overlap = p + depth + 1;
    weights = overlap + kShareSteps + 1;
    by_kseq = weights + depth * most;
    by_ratio = by_kseq + most;
    entries = reinterpret_cast<RatioEntry*>(by_ratio + most);
    ranked = entries + most;
    target_at_entries = reinterpret_cast<float*>(ranked + most);
    ids = reinterpret_cast<TokenId*>(target_at_entries + most);
    nodes = ids + depth * most;
  }
};

// Host memory for it, reused from round to round.
class HostScratch {
 public:
  // Valid until the next call.
  RuleScratch For(int depth, int max_entries) {
    depth = std::max(depth, 1);
    const auto bytes = static_cast<size_t>(RuleScratch::Bytes(depth, max_entries));
    if (memory_.size() * sizeof(double) < bytes) memory_.resize(bytes / sizeof(double));
    return {reinterpret_cast<unsigned char*>(memory_.data()), depth, max_entries};
  }

 private:
  std::vector<double> memory_;
};

}  // namespace outrider
