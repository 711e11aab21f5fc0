// The functions of common/spec/row_sampling.h for a sequence. They overwrite the row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/row_sampling.h"
#include "common/spec/sequence_sampling.h"

namespace outrider {

// `path`: the draft tokens before the row.
inline void MakeDistribution(const SequenceSampling& sampling, std::span<float> row,
                             std::span<const TokenId> path) {
  MakeDistribution(sampling.state(), sampling.allowed(), path, row);
}

inline TokenId MostLikely(const SequenceSampling& sampling, std::span<float> row,
                          std::span<const TokenId> path) {
  return MostLikely(sampling.state(), sampling.allowed(), path, row);
}

inline std::vector<TokenId> RaceOrder(const SequenceSampling& sampling, std::span<float> row,
                                      std::span<const TokenId> path, int count, uint64_t seed,
                                      uint32_t position) {
  return RaceOrder(sampling.state(), sampling.allowed(), path, row, count, seed, position);
}

}  // namespace outrider
