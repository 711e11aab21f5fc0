// Where the codes and scales of a quantized matrix are on the device, for the host that writes them
// and the kernels that read them. The layout is that of a warp's tensor-core products
// (tensor_core.h): one load of 16 bytes gives a lane the left operands of two (8 bits) or four
// (4 bits) of them.
//
// Tiles of kCodeTileRows rows follow each other, then steps of kCodeStep columns within a tile;
// rows and columns are padded with zero codes. A step is a run of blocks of kCodeBlockBytes: 32
// columns each of 8-bit codes, or 64 of 4-bit codes. In a block lane l, with g = l / 4 and t = l %
// 4, has 16 bytes. For 8 bits: columns 8t to 8t + 7 of row g, then of row g + 8. For 4 bits: the
// same of the first 32 columns, then of the second.
//
// Eight codes are pairs for 16-bit registers: within a word, codes 2j and 2j + 1 are at position j
// of its lower and of its upper half.
#pragma once

#include <cstdint>

#include "common/math/host_device.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

constexpr int kCodeTileRows = 16;
constexpr int kCodeStep = 128;
constexpr int kCodeBlockBytes = 512;

OUTRIDER_HD constexpr bool HasFourBits(CodeType type) {
  return type == CodeType::kInt4 || type == CodeType::kFp4E2M1;
}
OUTRIDER_HD constexpr int CodeStepBytes(CodeType type) {
  return kCodeTileRows * kCodeStep / (HasFourBits(type) ? 2 : 1);
}
OUTRIDER_HD constexpr int64_t CodeTileBytes(CodeType type, int columns) {
  return static_cast<int64_t>((columns + kCodeStep - 1) / kCodeStep) * CodeStepBytes(type);
}

// Offset in a tile of the codes of columns `first` to first + 7 of a row: 8 or 4 bytes.
// REQUIRES: first is a multiple of 8, 0 <= row < kCodeTileRows.
OUTRIDER_HD constexpr int64_t EightCodesAt(CodeType type, int row, int first) {
  const int lane = row % 8 * 4 + first % 32 / 8, half = row / 8, part = first / 32;
  if (HasFourBits(type)) {
    return static_cast<int64_t>(part / 2) * kCodeBlockBytes + lane * 16 + (part % 2 * 2 + half) * 4;
  }
  return static_cast<int64_t>(part) * kCodeBlockBytes + lane * 16 + half * 8;
}

// Code `i` of the eight in these bytes, read as little-endian words; words[1] only for 8 bits.
OUTRIDER_HD constexpr unsigned CodeOfEight(CodeType type, const uint32_t (&words)[2], int i) {
  if (HasFourBits(type)) return words[0] >> (i / 2 + i % 2 * 4) * 4 & 15u;
  return words[i / 4] >> (i % 4 / 2 + i % 2 * 2) * 8 & 255u;
}

// Index of the scale (or offset) of a row's group: the groups of a tile follow each other, and rows
// g and g + 8 of a tile are neighbours.
OUTRIDER_HD constexpr int64_t ScaleAt(int groups, int64_t row, int group) {
  const auto in_tile = static_cast<int>(row % kCodeTileRows);
  return (row / kCodeTileRows * groups + group) * kCodeTileRows + in_tile % 8 * 2 + in_tile / 8;
}

}  // namespace outrider
