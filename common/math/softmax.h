// Operations on float rows of up to a vocabulary, vectorised for the machine at run time (Highway).
// NaN never wins a comparison and gets probability 0, so that a broken model's row remains usable;
// IsFinite detects such rows.
//
// Thread: any; no state.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// The largest entry; -infinity if there is none (or only NaN).
float RowMax(std::span<const float> row);

// largest[i]: RowMax of the i-th tile of `tile` entries; [ceil(row / tile)].
void TileMax(std::span<const float> row, size_t tile, std::span<float> largest);

// sums[i]: sum of the i-th tile of `tile` entries, in float; [ceil(row / tile)].
void TileSums(std::span<const float> row, size_t tile, std::span<float> sums);

// Whether no entry is NaN or infinite.
bool IsFinite(std::span<const float> row);

// The index of the largest entry, the lowest among equals; 0 if RowMax is -infinity.
TokenId RowArgmax(std::span<const float> row);

// In place: x -> exp((x - max) / temperature) / sum. temperature > 0. The sum is taken in float
// over tiles and in double over the row: relative error below 1e-6 at 262,144 entries.
// Entries of +infinity share the mass; a row without any entry above -infinity becomes a point mass
// on token 0.
void Softmax(std::span<float> row, float temperature);

// The sum of exp(x - max) over the row, as precise as Softmax's; NaN counts as -infinity. `max`: at
// least RowMax, finite.
double ExpSum(std::span<const float> row, float max);

// The number of entries above `threshold`.
int CountAbove(std::span<const float> row, float threshold);

// In place: entries below `floor` become 0; returns the sum of the rest.
double ZeroBelow(std::span<float> row, float floor);

// In place: x -> x * factor.
void Scale(std::span<float> row, float factor);

struct RowEntry {
  TokenId id = 0;
  float value = 0;
};

// Descending value, ties by ascending id. A function object, so that sorting can inline it.
inline constexpr auto LargerFirst = [](const RowEntry& a, const RowEntry& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
};

// The `count` largest positive entries (or all, if fewer) in the order of LargerFirst. One
// vectorised scan against a rising threshold; only few entries are sorted.
std::vector<RowEntry> TopEntries(std::span<const float> row, int count);

// The same of all entries above -infinity, also those that are not positive.
std::vector<RowEntry> LargestEntries(std::span<const float> row, int count);

// Appends the entries above `threshold`, by ascending id.
void AppendAbove(std::span<const float> row, float threshold, std::vector<RowEntry>& out);

// The last of TopEntries, without sorting the others; (0, 0) if there are fewer than `count`.
RowEntry KthLargest(std::span<const float> row, int count);

}  // namespace outrider
