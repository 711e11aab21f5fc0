// Weights of a product that are codes. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "common/backend/cuda/kernels/code_layout.h"
#include "common/backend/cuda/kernels/code_pairs.h"
#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/kernels/product_kernel.h"
#include "common/backend/cuda/kernels/tensor_core.h"
#include "common/math/fp4.h"

namespace outrider {

// Weights as MultiplyTile takes them. T: Bf16 or F16.
template <class T, CodeType kType>
struct CodeWeights {
  using Element = T;
  static constexpr int kStep = kCodeStep;
  static constexpr int kParts = kStep / 32;
  static constexpr int kLoads = CodeStepBytes(kType) / kCodeBlockBytes;
  static constexpr int kAhead = HasFourBits(kType) ? 2 : 1;
  // Two even for few rows, since x takes as many bytes as 16 or 32 outputs' codes.
  static constexpr int kFewTilesM = 2;
  // Two steps ahead with 16 rows take too many registers for two blocks.
  static constexpr int Blocks(int tiles_n) { return kAhead * tiles_n > 2 ? 1 : 2; }
  static constexpr bool kHasOffsets = kType == CodeType::kInt4 || kType == CodeType::kInt8;

  const uint8_t* codes;
  const float* scales;
  const uint8_t* exponents;
  const float* offsets;  // null: none, of kInt4 those that are not -8 scales
  int columns;
  int groups;
  int group_shift;     // the group of column k is k >> group_shift
  unsigned group_end;  // bit p: sums end, and are scaled, with the step's 32 inputs of index p

  struct Tile {
    int index;
  };
  // As loaded: what is computed from it would wait for it, and so would the loads that follow. Lane
  // l holds the scales of the group of inputs l / 8 * 32 on, x that of row l % 8 and y that of row
  // l % 8 + 8.
  struct Step {
    uint4 codes[kLoads];
    float2 scale, offset;
    unsigned exponents;  // instead of scales, the first in the low byte
  };

  static __device__ int Lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }

  __device__ Tile TileOf(int row, int last) const { return {min(row, last) / kCodeTileRows}; }

  __device__ const uint8_t* StepAt(const Tile& tile, int k) const {
    const int step = tile.index * ((columns + kStep - 1) / kStep) + k / kStep;
    return codes + static_cast<int64_t>(step) * CodeStepBytes(kType);
  }

  // A lane fetches a line.
  __device__ void Begin(const Tile& tile, int k) const {
    const int line = Lane() * 128;
    if (k < columns && line < CodeStepBytes(kType)) Prefetch(StepAt(tile, k) + line);
  }

  __device__ Step Load(const Tile& tile, int k) const {
    Step step = {};
    if (k >= columns) return step;
    const uint8_t* const at = StepAt(tile, k) + Lane() * 16;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) step.codes[i] = LoadStreamed(at + i * kCodeBlockBytes);
    const int group = min(k + Lane() / 8 * 32, columns - 1) >> group_shift;
    const int64_t first =
        static_cast<int64_t>(tile.index * groups + group) * kCodeTileRows + Lane() % 8 * 2;
    if constexpr (kType == CodeType::kFp4E2M1) {
      step.exponents = *reinterpret_cast<const uint16_t*>(exponents + first);
    } else {
      step.scale = *reinterpret_cast<const float2*>(scales + first);
    }
    if (kHasOffsets && offsets != nullptr) {
      step.offset = *reinterpret_cast<const float2*>(offsets + first);
    }
    return step;
  }

  // The left operands of both products with inputs `part` * 32 on.
  static __device__ void Widen(const Step& step, int part, unsigned (&left)[2][4]) {
#pragma unroll
    for (int product = 0; product < 2; ++product) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i % 2, pair = product * 2 + i / 2;
        if constexpr (HasFourBits(kType)) {
          const uint4 block = step.codes[part / 2];
          const unsigned word =
              part % 2 == 0 ? (half == 0 ? block.x : block.y) : (half == 0 ? block.z : block.w);
          left[product][i] = WidenPair<T, kType>(word, pair);
        } else {
          const uint4 block = step.codes[part];
          const unsigned word =
              half == 0 ? (product == 0 ? block.x : block.y) : (product == 0 ? block.z : block.w);
          left[product][i] = WidenPair<T, kType>(word, pair % 2);
        }
      }
    }
  }

  // sum += partial * scale + inputs * offset, where a group's 32 inputs of index `part` end.
  template <int kTilesN>
  __device__ void AddScaled(const Step& step, int part, const float (&partial)[kTilesN][4],
                            const float (&inputs)[kTilesN][4], float (&sum)[kTilesN][4]) const {
    const int from = part * 8 + Lane() / 4;
    float scale[2];
    if constexpr (kType == CodeType::kFp4E2M1) {
      const unsigned both = __shfl_sync(kFullWarp, step.exponents, from);
      scale[0] = ExponentToFloat(static_cast<uint8_t>(both & 0xff));
      scale[1] = ExponentToFloat(static_cast<uint8_t>(both >> 8));
    } else {
      scale[0] = __shfl_sync(kFullWarp, step.scale.x, from);
      scale[1] = __shfl_sync(kFullWarp, step.scale.y, from);
    }
#pragma unroll
    for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[n][i] = fmaf(partial[n][i], scale[i / 2], sum[n][i]);
    }
    if (!kHasOffsets || offsets == nullptr) return;
    float offset[2] = {__shfl_sync(kFullWarp, step.offset.x, from),
                       __shfl_sync(kFullWarp, step.offset.y, from)};
    if constexpr (kType == CodeType::kInt4) {  // WidenPair has subtracted 8
      for (int half = 0; half < 2; ++half) offset[half] = fmaf(8.f, scale[half], offset[half]);
    }
#pragma unroll
    for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[n][i] = fmaf(inputs[n][i], offset[i / 2], sum[n][i]);
    }
  }

  template <int kTilesM, int kTilesN>
  __device__ void MultiplyAdd(const Step (&step)[kTilesM], const uint4 (&values)[kParts][kTilesN],
                              float (&sum)[kTilesM][kTilesN][4]) const {
    constexpr unsigned kOnes = PairConstants<T>::kOnes;
    float partial[kTilesM][kTilesN][4] = {}, inputs[kTilesN][4] = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) {
        unsigned left[2][4];
        Widen(step[m], part, left);
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const uint4 v = values[part][n];
          TensorCore<T>::MultiplyAdd(left[0], v.x, v.y, partial[m][n]);
          TensorCore<T>::MultiplyAdd(left[1], v.z, v.w, partial[m][n]);
        }
      }
      // The same product with a matrix of ones.
      if (kHasOffsets && offsets != nullptr) {
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const uint4 v = values[part][n];
          TensorCore<T>::MultiplyAdd({kOnes, kOnes, kOnes, kOnes}, v.x, v.y, inputs[n]);
          TensorCore<T>::MultiplyAdd({kOnes, kOnes, kOnes, kOnes}, v.z, v.w, inputs[n]);
        }
      }
      if ((group_end >> part & 1) == 0) continue;
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) AddScaled(step[m], part, partial[m], inputs, sum[m]);
      Clear(partial);
      Clear(inputs);
    }
  }

  template <class Values, int kCount>
  static __device__ void Clear(Values (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (std::is_array_v<Values>) {
        Clear(values[i]);
      } else {
        values[i] = 0.f;
      }
    }
  }
};

template <class T, CodeType kType>
CodeWeights<T, kType> WeightsOf(const DeviceCodes& codes) {
  const bool is_whole_row = codes.groups == 1;
  const int shift = is_whole_row ? 31 : std::countr_zero(static_cast<unsigned>(codes.group_size));
  const unsigned group_end = is_whole_row || shift >= 7 ? 0b1000 : shift == 6 ? 0b1010 : 0b1111;
  return {codes.codes,   codes.scales, codes.exponents, codes.offsets,
          codes.columns, codes.groups, shift,           group_end};
}

// Calls of(weights) with the codes as CodeWeights of their type.
template <class T, class Of>
cudaError_t ByType(const DeviceCodes& codes, const Of& of) {
  switch (codes.type) {
    case CodeType::kInt4: return of(WeightsOf<T, CodeType::kInt4>(codes));
    case CodeType::kInt8: return of(WeightsOf<T, CodeType::kInt8>(codes));
    case CodeType::kFp8E4M3: return of(WeightsOf<T, CodeType::kFp8E4M3>(codes));
    case CodeType::kFp4E2M1: return of(WeightsOf<T, CodeType::kFp4E2M1>(codes));
  }
  return cudaErrorInvalidValue;
}

}  // namespace outrider
