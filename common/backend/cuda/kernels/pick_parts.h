// Long rows are read by several blocks each, because one multiprocessor would take too long: every
// block reads a part, and then one block per row picks among what those have found. The picks are
// those of one block for the whole row, except that sums are added up in another order.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/backend/pick_batch.h"
#include "common/math/host_device.h"

namespace outrider {

struct PickArrays;

constexpr int kPartEntries = 4096;      // of a row; a multiple of TileNoise::kTile
constexpr int kPartCandidates = 128;    // entries of a part among which a distribution is cut
constexpr int kMostPickedByParts = 64;  // entries of a pick
constexpr int kRowsInParts = 64;        // at once: enough blocks for a device, little memory

// Whether the pick's row is read in parts. This depends on the pick alone, and so do its bits.
OUTRIDER_HD inline bool IsReadInParts(const PickSpec& spec) {
  const bool is_cut = spec.pick != RowPick::kTop && spec.sampling.temperature > 0.f;
  return spec.allowed > kPartEntries && spec.count <= kMostPickedByParts &&
         (!is_cut || spec.sampling.top_k < kPartCandidates);
}
// Whether the pick of such a row needs the summaries of its parts.
OUTRIDER_HD inline bool NeedsSummaries(const PickSpec& spec) {
  return spec.pick != RowPick::kTop || spec.measure != RowMeasure::kNone;
}
inline int PartsOf(int vocab) { return (vocab + kPartEntries - 1) / kPartEntries; }

// What a block finds in a part.
struct PickPart {
  // As RowSummary, of the adjusted logits; for kTop of the model's own, at temperature 1.
  unsigned long long best;
  double sum;
  float max;
  int broken;
  double measure;  // the part's share of it
  float missed;    // at least the probability of every entry that is not a candidate
};
constexpr size_t kFoundBytesOfPart = 1024;  // FoundInRow

// Reads the parts of all rows for which IsReadInParts. REQUIRES: at most kRowsInParts rows.
cudaError_t LaunchReadParts(const PickArrays& arrays, cudaStream_t stream);

}  // namespace outrider
