#include <algorithm>
#include <type_traits>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/code_product.h"
#include "common/backend/cuda/kernels/code_weights.h"
#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/expert_product.h"
#include "common/backend/cuda/kernels/experts.h"
#include "common/backend/cuda/kernels/float_weights.h"
#include "common/backend/cuda/kernels/product_kernel.h"
#include "common/backend/cuda/kernels/widen_codes.h"

namespace outrider {
namespace {

// The weights of each expert as MultiplyTile takes them.
template <class T>
struct FloatExperts {
  using Weights = FloatWeights<T>;

  int stride;

  __device__ Weights Of(const DeviceExpert& expert) const {
    return {static_cast<const T*>(expert.values), stride};
  }
};
template <class T, CodeType kType>
struct CodeExperts {
  using Weights = CodeWeights<T, kType>;

  Weights any;  // the weights of one of them

  __device__ Weights Of(const DeviceExpert& expert) const {
    Weights weights = any;
    weights.codes = expert.codes.codes;
    weights.scales = expert.codes.scales;
    weights.exponents = expert.codes.exponents;
    weights.offsets = expert.codes.offsets;
    return weights;
  }
};

// The rows of x of a tile's pairs.
struct RowsOfPairs {
  const int32_t* rows;  // null: x has a row for each pair
  int first;            // sorted index of the first pair

  __device__ int operator()(int pair) const {
    return rows != nullptr ? rows[first + pair] : first + pair;
  }
};

// Blocks along x are tiles of pairs, along y tiles of outputs: blocks that read the same weights
// run at about the same time.
template <class Experts, int kTilesM, int kTilesN>
__global__ void __launch_bounds__(kProductWarps* kWarpSize, Experts::Weights::Blocks(kTilesN))
    TensorExpertKernel(Experts experts, ExpertProductCall call,
                       const typename Experts::Weights::Element* x, const int32_t* rows,
                       const ExpertTile* tiles) {
  using Sums = TileSums<kTilesM, kTilesN>;
  OUTRIDER_SHARED(Sums, warp_sums);
  AwaitEarlierKernels();
  const ExpertTile tile = tiles[blockIdx.x];
  if (tile.pairs == 0) return;
  const int64_t first_bias = static_cast<int64_t>(tile.expert) * call.out_features;
  const PlainOutput out = {call.bias != nullptr ? call.bias + first_bias : nullptr, false,
                           call.y + static_cast<int64_t>(tile.first) * call.out_features};
  MultiplyTile<kTilesM, kTilesN>(experts.Of(call.experts[tile.expert]), x, call.stride,
                                 RowsOfPairs{rows, tile.first},
                                 static_cast<int>(blockIdx.y) * kTilesM * 16, call.out_features, 0,
                                 tile.pairs, warp_sums, out);
}

template <int kTilesM, int kTilesN, class Experts>
cudaError_t LaunchTiles(const Experts& experts, const ExpertProductCall& call,
                        const typename Experts::Weights::Element* x, bool x_by_row,
                        const RouterShape& shape, const ExpertRouting& routing, int rows,
                        cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(MaxExpertTiles(rows, shape)),
                  Blocks(call.out_features, kTilesM * 16));
  return LaunchNext(TensorExpertKernel<Experts, kTilesM, kTilesN>, grid, kProductWarps * kWarpSize,
                    0, stream, experts, call, x, x_by_row ? routing.sorted_rows : nullptr,
                    reinterpret_cast<const ExpertTile*>(routing.tiles));
}

template <class T>
cudaError_t LaunchTensorKernel(const ExpertProductCall& call, const DeviceExpert& any,
                               const uint16_t* bits, bool x_by_row, const RouterShape& shape,
                               const ExpertRouting& routing, int rows, cudaStream_t stream) {
  const auto* const x = reinterpret_cast<const T*>(bits);
  const auto launch = [&](const auto& experts) {
    using Weights = typename std::decay_t<decltype(experts)>::Weights;
    return ExpertTileRows(rows, shape) <= 8
               ? LaunchTiles<Weights::kFewTilesM, 1>(experts, call, x, x_by_row, shape, routing,
                                                     rows, stream)
               : LaunchTiles<2, 2>(experts, call, x, x_by_row, shape, routing, rows, stream);
  };
  if (any.values != nullptr) return launch(FloatExperts<T>{call.stride});
  return ByType<T>(any.codes, [&]<CodeType kType>(const CodeWeights<T, kType>& weights) {
    return launch(CodeExperts<T, kType>{weights});
  });
}

constexpr int kPlainRows = 8;       // that a block multiplies at once
constexpr int kPlainWarps = 4;      // per block
constexpr int kOutputsOfAWarp = 2;  // one after another

// Eight inputs from `k` on of output `output`, as the product uses them: rounded to T.
template <class T>
__device__ inline void LoadWeights(const DeviceExpert& expert, int output, int stride, int k,
                                   float (&out)[8]) {
  if (expert.values != nullptr) {
    LoadEight(static_cast<const T*>(expert.values) + static_cast<int64_t>(output) * stride + k,
              out);
    return;
  }
  WidenEight(expert.codes, output, k, out);
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = Widen(Narrow<T>(out[i]));
}

// Eight inputs from `k` on of a row of x, zeros from `in` on.
__device__ inline void LoadInputs(const float* row, int in, int k, float (&out)[8]) {
  if (in % 4 == 0 && k + 8 <= in) {
    LoadEight(row + k, out);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = k + i < in ? row[k + i] : 0.f;
}

// Outputs of up to kPlainRows pairs from `pair` on: each warp reads a row of its expert's matrix
// once and multiplies it with the inputs of all these pairs. A sum runs over the inputs of each
// lane, then over the lanes: the order is the same for any pairs.
template <class T>
__device__ void MultiplyPairs(const ExpertProductCall& call, const float* x, const int32_t* rows,
                              const ExpertTile& tile, int pair) {
  const DeviceExpert expert = call.experts[tile.expert];
  const int pairs = min(kPlainRows, tile.pairs - pair);
  const float* inputs[kPlainRows];
#pragma unroll
  for (int p = 0; p < kPlainRows; ++p) {
    const int index = tile.first + pair + min(p, pairs - 1);
    const int64_t row = rows != nullptr ? rows[index] : index;
    inputs[p] = x + row * call.in_features;
  }
  const int first = (static_cast<int>(blockIdx.y) * kPlainWarps + Warp()) * kOutputsOfAWarp;
  for (int output = first; output < min(first + kOutputsOfAWarp, call.out_features); ++output) {
    float sum[kPlainRows] = {};
    for (int k = Lane() * 8; k < call.stride; k += kWarpSize * 8) {
      float weight[8];
      LoadWeights<T>(expert, output, call.stride, k, weight);
#pragma unroll
      for (int p = 0; p < kPlainRows; ++p) {
        if (p >= pairs) break;
        float input[8];
        LoadInputs(inputs[p], call.in_features, k, input);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[p] = fmaf(weight[i], input[i], sum[p]);
      }
    }
#pragma unroll
    for (int p = 0; p < kPlainRows; ++p) {
      if (p >= pairs) break;
      float total = WarpSum(sum[p]);
      if (call.bias != nullptr) {
        total += call.bias[static_cast<int64_t>(tile.expert) * call.out_features + output];
      }
      if (Lane() == 0) {
        call.y[static_cast<int64_t>(tile.first + pair + p) * call.out_features + output] = total;
      }
    }
  }
}

// Block (x, y) computes some outputs of tile x. `rows`: as in RowsOfPairs.
template <class T>
__global__ void __launch_bounds__(kPlainWarps* kWarpSize)
    ExpertKernel(ExpertProductCall call, const float* x, const int32_t* rows,
                 const ExpertTile* tiles) {
  AwaitEarlierKernels();
  const ExpertTile tile = tiles[blockIdx.x];
  for (int pair = 0; pair < tile.pairs; pair += kPlainRows) {
    MultiplyPairs<T>(call, x, rows, tile, pair);
  }
}

}  // namespace

bool HasTensorExpertProduct(Dtype dtype, std::span<const DeviceExpert> experts) {
  if (dtype == Dtype::kF32) return false;
  const DeviceExpert& first = experts[0];
  return std::all_of(experts.begin(), experts.end(), [&](const DeviceExpert& expert) {
    if (first.values != nullptr || expert.values != nullptr) {
      return first.values != nullptr && expert.values != nullptr;
    }
    const DeviceCodes& codes = expert.codes;
    return codes.type == first.codes.type && codes.groups == first.codes.groups &&
           codes.group_size == first.codes.group_size && HasCodeProduct(codes) &&
           codes.column_of_input == nullptr;
  });
}

cudaError_t LaunchTensorExpertProduct(const ExpertProductCall& call, const DeviceExpert& any,
                                      const uint16_t* x, bool x_by_row, const RouterShape& shape,
                                      const ExpertRouting& routing, int rows, cudaStream_t stream) {
  switch (call.dtype) {
    case Dtype::kF32: break;
    case Dtype::kF16:
      return LaunchTensorKernel<F16>(call, any, x, x_by_row, shape, routing, rows, stream);
    case Dtype::kBf16:
      return LaunchTensorKernel<Bf16>(call, any, x, x_by_row, shape, routing, rows, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchExpertProduct(const ExpertProductCall& call, const float* x, bool x_by_row,
                                const RouterShape& shape, const ExpertRouting& routing, int rows,
                                cudaStream_t stream) {
  const auto launch = [&](auto kernel) {
    const dim3 grid(static_cast<unsigned>(MaxExpertTiles(rows, shape)),
                    Blocks(call.out_features, kPlainWarps * kOutputsOfAWarp));
    return LaunchNext(kernel, grid, kPlainWarps * kWarpSize, 0, stream, call, x,
                      x_by_row ? routing.sorted_rows : nullptr,
                      reinterpret_cast<const ExpertTile*>(routing.tiles));
  };
  switch (call.dtype) {
    case Dtype::kF32: return launch(ExpertKernel<float>);
    case Dtype::kF16: return launch(ExpertKernel<F16>);
    case Dtype::kBf16: return launch(ExpertKernel<Bf16>);
  }
  return cudaErrorInvalidValue;
}

}  // namespace outrider
