// Paged attention with an online softmax (Milakov and Gimelshein 2018) over tiles of 64 positions.
//
// A query's operations depend only on its own positions: tiles start at multiples of 64, a score is
// one chain of multiply-adds over the head's elements, and values are added in the order of
// positions. Pages, other queries in the block, and whether an ancestor's token is stored next to
// its child's do not affect the bits. So a row of a tree equals the row of its path as a chain.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/backend/cpu/attention.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "common/backend/cpu/attention_units.h"
#include "common/backend/cpu/kernels.h"
#include "common/backend/cpu/widen_fp8-inl.h"
#include "common/base/check.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;

template <class D>
HWY_INLINE hn::Vec<D> Widen(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> Widen(D d, const uint16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, p))));
}
// In units of kFp8Unit, which AttentionUnit's scales account for.
template <class D>
HWY_INLINE hn::Vec<D> Widen(D d, const uint8_t* codes) {
  return WidenFp8(d, codes);
}

// scores[q][0..lanes) of kChunks runs of neighbouring tokens against kQueries queries. All are
// computed side by side, because a single chain would wait for its own latency.
template <int kQueries, int kChunks, class D, class T>
HWY_INLINE void ScoreChunks(D d, const AttentionUnit& unit, int query, const T* const* keys,
                            size_t chunk, float* scores, size_t stride) {
  const size_t dim = unit.head_dim;
  const float* const* q = unit.q + query;
  hn::Vec<D> sum[kQueries][kChunks];
  HWY_UNROLL(4)
  for (int i = 0; i < kQueries; ++i) {
    HWY_UNROLL(4)
    for (int c = 0; c < kChunks; ++c) sum[i][c] = hn::Zero(d);
  }
  for (size_t e = 0; e < dim; ++e) {
    hn::Vec<D> key[kChunks];
    HWY_UNROLL(4)
    for (int c = 0; c < kChunks; ++c) key[c] = Widen(d, keys[chunk + c] + e * unit.page_tokens);
    HWY_UNROLL(4)
    for (int i = 0; i < kQueries; ++i) {
      const auto q_e = hn::Set(d, q[i][e]);
      HWY_UNROLL(4)
      for (int c = 0; c < kChunks; ++c) sum[i][c] = hn::MulAdd(q_e, key[c], sum[i][c]);
    }
  }
  const auto scale = hn::Set(d, unit.scale);
  HWY_UNROLL(4)
  for (int i = 0; i < kQueries; ++i) {
    float* row = scores + (query + i) * stride + chunk * hn::Lanes(d);
    HWY_UNROLL(4)
    for (int c = 0; c < kChunks; ++c) {
      hn::StoreU(hn::Mul(sum[i][c], scale), d, row + c * hn::Lanes(d));
    }
  }
}

template <int kQueries, class D, class T>
HWY_INLINE void ScoreQueries(D d, const AttentionUnit& unit, int query, const T* const* keys,
                             size_t chunks, float* scores, size_t stride) {
  constexpr size_t kChunks = hn::MaxLanes(DF()) == 16 ? 4 : 2;  // registers: 32 or 16
  size_t chunk = 0;
  for (; chunk + kChunks <= chunks; chunk += kChunks) {
    ScoreChunks<kQueries, kChunks>(d, unit, query, keys, chunk, scores, stride);
  }
  for (; chunk < chunks; ++chunk) {
    ScoreChunks<kQueries, 1>(d, unit, query, keys, chunk, scores, stride);
  }
}

// Calls f(integral_constant<int, n>, q) for n neighbouring queries from q on: kMax at a time, then
// the rest.
template <int kMax, class F>
HWY_INLINE void ForQueries(int first, int last, const F& f) {
  for (; first + kMax <= last; first += kMax) f(std::integral_constant<int, kMax>(), first);
  if constexpr (kMax > 1) {
    if (first + 3 <= last) return f(std::integral_constant<int, 3>(), first);
    if (first + 2 <= last) return f(std::integral_constant<int, 2>(), first);
    if (first < last) f(std::integral_constant<int, 1>(), first);
  }
}

// scores[query][i] = q . k of the tokens first + i, i in [0, count), in storage order. Writes up to
// one vector more. The number of lanes of `D` divides a page.
template <class D, class T>
void ScoreRun(D d, const AttentionUnit& unit, int first, int count, float* scores, size_t stride) {
  constexpr size_t kMaxChunks = 64;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const T* keys[kMaxChunks];
  while (count > 0) {
    size_t chunks = 0;
    for (; count > 0 && chunks < kMaxChunks; count -= lanes, first += lanes) {
      keys[chunks++] = static_cast<const T*>(unit.keys) + unit.Place(first).key;
    }
    // Pages that do not hold whole vectors occur in tests and odd configurations only, so they get
    // less code.
    constexpr int kMax = std::is_same_v<D, DF> ? 4 : 1;
    ForQueries<kMax>(0, unit.queries, [&](auto queries, int query) HWY_ATTR {
      ScoreQueries<decltype(queries)::value>(d, unit, query, keys, chunks, scores, stride);
    });
    scores += chunks * lanes;
  }
}

// `first` is a multiple of 64, so a chunk that divides a page never straddles two.
template <class T>
void Score(const AttentionUnit& unit, int first, int count, float* scores, size_t stride) {
  const DF df;
  if (unit.page_tokens % hn::Lanes(df) == 0)
    return ScoreRun<DF, T>(df, unit, first, count, scores, stride);
  if (unit.page_tokens % 4 == 0) {
    const hn::CappedTag<float, 4> four;
    return ScoreRun<decltype(four), T>(four, unit, first, count, scores, stride);
  }
  const hn::CappedTag<float, 1> one;
  ScoreRun<decltype(one), T>(one, unit, first, count, scores, stride);
}

// Applies the soft cap to scores[query][0, count), rounded up to a whole vector.
HWY_INLINE void CapScores(const AttentionUnit& unit, int count, float* scores, size_t stride) {
  const float cap = unit.shape->soft_cap;
  if (cap <= 0) return;
  const DF df;
  const auto caps = hn::Set(df, cap);
  for (int q = 0; q < unit.queries; ++q) {
    float* row = scores + q * stride;
    for (int i = 0; i < count; i += static_cast<int>(hn::Lanes(df))) {
      const auto capped = hn::Mul(caps, hn::Tanh(df, hn::Div(hn::LoadU(df, row + i), caps)));
      hn::StoreU(capped, df, row + i);
    }
  }
}

// Turns a tile's scores into weights in place. Positions outside [begin, end) get weight 0. Returns
// the factor by which to scale the sums so far.
HWY_INLINE float SoftmaxTile(float* scores, int begin, int end, float& max, float& sum) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto none = hn::Set(df, -std::numeric_limits<float>::infinity());
  const auto first = hn::Set(df, static_cast<float>(begin));
  const auto last = hn::Set(df, static_cast<float>(end));
  auto tile_max = none;
  for (size_t i = 0; i < kTile; i += lanes) {
    const auto position = hn::Iota(df, static_cast<float>(i));
    const auto inside = hn::And(hn::Ge(position, first), hn::Lt(position, last));
    const auto score = hn::IfThenElse(inside, hn::Load(df, scores + i), none);
    hn::Store(score, df, scores + i);
    tile_max = hn::Max(tile_max, score);
  }
  const float new_max = std::max(max, hn::GetLane(hn::MaxOfLanes(df, tile_max)));
  const auto shift = hn::Set(df, new_max);
  auto tile_sum = hn::Zero(df);
  for (size_t i = 0; i < kTile; i += lanes) {
    // Scores far below the maximum are clamped; exp(-100) is 0 in single precision.
    const auto x = hn::Max(hn::Sub(hn::Load(df, scores + i), shift), hn::Set(df, -100.f));
    const auto weight = hn::IfThenElseZero(hn::Gt(x, hn::Set(df, -87.f)), hn::Exp(df, x));
    hn::Store(weight, df, scores + i);
    tile_sum = hn::Add(tile_sum, weight);
  }
  // Most tiles have no new maximum; exp(0) would give the same.
  const float shrink = new_max == max ? 1.f : std::exp(max - new_max);
  max = new_max;
  sum = sum * shrink + hn::GetLane(hn::SumOfLanes(df, tile_sum));
  return shrink;
}

// sums[q][e..) = sums[q][e..) * shrink[q] + the weighted values of tokens [begin, end) of the tile.
template <int kQueries, int kVectors, class D, class T>
HWY_INLINE void AddValues(D d, const T* const* values, size_t e, int begin, int end,
                          const float* weights, const float* shrink, float* sums, size_t dim) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  hn::Vec<D> sum[kQueries][kVectors];
  HWY_UNROLL(4)
  for (int i = 0; i < kQueries; ++i) {
    const auto s = hn::Set(d, shrink[i]);
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      sum[i][v] = hn::Mul(hn::LoadU(d, sums + i * dim + e + v * kLanes), s);
    }
  }
  for (int t = begin; t < end; ++t) {
    const T* value_row = values[t] + e;
    hn::Vec<D> value[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) value[v] = Widen(d, value_row + v * kLanes);
    HWY_UNROLL(4)
    for (int i = 0; i < kQueries; ++i) {
      const auto w = hn::Set(d, weights[i * kTile + t]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(w, value[v], sum[i][v]);
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kQueries; ++i) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[i][v], d, sums + i * dim + e + v * kLanes);
    }
  }
}

template <int kQueries, class T>
void AddTile(const T* const* values, int begin, int end, const float* weights, const float* shrink,
             float* sums, size_t dim) {
  constexpr int kVectors = hn::MaxLanes(DF()) == 16 ? 4 : 2;
  const DF df;
  const size_t lanes = hn::Lanes(df);
  size_t e = 0;
  for (; e + kVectors * lanes <= dim; e += kVectors * lanes) {
    AddValues<kQueries, kVectors>(df, values, e, begin, end, weights, shrink, sums, dim);
  }
  if (kVectors == 4 && e + 2 * lanes <= dim) {  // head_dim 32 and the like: two chains, not one
    AddValues<kQueries, 2>(df, values, e, begin, end, weights, shrink, sums, dim);
    e += 2 * lanes;
  }
  for (; e + lanes <= dim; e += lanes) {
    AddValues<kQueries, 1>(df, values, e, begin, end, weights, shrink, sums, dim);
  }
  // head_dim is a multiple of 8.
  const hn::CappedTag<float, 8> eight;
  for (; e < dim; e += hn::Lanes(eight)) {
    AddValues<kQueries, 1>(eight, values, e, begin, end, weights, shrink, sums, dim);
  }
}

// One tile for queries [first, last), whose weights are in unit.scores. values[i] is the value at
// the tile's position i; begin[q], end[q] is the range that query q sees (may be empty).
template <class T>
void AddQueries(const AttentionUnit& unit, const T* const* values, int first, int last,
                const int* begin, const int* end, const float* shrink) {
  const size_t dim = unit.head_dim;
  ForQueries<4>(first, last, [&](auto queries, int q) HWY_ATTR {
    constexpr int kQueries = decltype(queries)::value;
    const int from = *std::min_element(begin + q, begin + q + kQueries);
    const int to = *std::max_element(end + q, end + q + kQueries);
    AddTile<kQueries>(values, from, to, unit.scores + q * kTile, shrink + q, unit.sums + q * dim,
                      dim);
  });
}

// Softmax and values of one tile of positions for queries [first, last).
template <class T>
void UseTile(const AttentionUnit& unit, int tile, const T* const* values, int first, int last) {
  int begin[kMaxQueries], end[kMaxQueries];
  float shrink[kMaxQueries];
  for (int q = first; q < last; ++q) {
    begin[q] = std::clamp(unit.first_position[q] - tile, 0, kTile);
    end[q] = std::clamp(unit.end_position[q] - tile, 0, kTile);
    float* scores = unit.scores + q * kTile;
    if (begin[q] < end[q]) {
      shrink[q] = SoftmaxTile(scores, begin[q], end[q], unit.max[q], unit.sum[q]);
    } else {
      std::fill(scores, scores + kTile, 0.f);
      begin[q] = kTile;
      end[q] = 0;
      shrink[q] = 1.f;
    }
  }
  AddQueries(unit, values, first, last, begin, end, shrink);
}

// Tiles [begin, end) of positions that are stored in order.
template <class T>
void StoredTiles(const AttentionUnit& unit, int begin, int end) {
  const T* values[kTile];
  for (int tile = begin; tile < end; tile += kTile) {
    const int count = std::min(end - tile, kTile);
    Score<T>(unit, tile, count, unit.scores, kTile);
    CapScores(unit, count, unit.scores, kTile);
    unit.ValuesOf(tile, count, values);
    UseTile(unit, tile, values, 0, unit.queries);
  }
}

// The positions of a tree from `begin` on: all tokens are scored once in storage order, then each
// row picks its ancestors.
template <class T>
void TreeTiles(const AttentionUnit& unit, int begin) {
  const int stored = unit.context + unit.rows - begin;
  const size_t stride = TailStride(unit.rows);
  Score<T>(unit, begin, stored, unit.tail_scores, stride);
  CapScores(unit, stored, unit.tail_scores, stride);
  const T* values[kTile];
  for (int first = 0; first < unit.queries;) {
    const int row = unit.row[first];
    int last = first;
    while (last < unit.queries && unit.row[last] == row) ++last;
    const int end = unit.end_position[first];
    for (int depth = end - unit.context, node = row; depth > 0; node = unit.parents[node]) {
      unit.path[--depth] = node;
    }
    for (int tile = begin; tile < end; tile += kTile) {
      const int tile_end = std::min(end, tile + kTile);
      const int held = std::clamp(unit.context, tile, tile_end) - tile;
      unit.ValuesOf(tile, held, values);
      for (int q = first; q < last; ++q) {
        std::copy_n(unit.tail_scores + q * stride + tile - begin, held, unit.scores + q * kTile);
      }
      for (int i = held; i < tile_end - tile; ++i) {
        const int token = unit.context + unit.path[tile + i - unit.context];
        unit.ValuesOf(token, 1, values + i);
        for (int q = first; q < last; ++q) {
          unit.scores[q * kTile + i] = unit.tail_scores[q * stride + token - begin];
        }
      }
      UseTile(unit, tile, values, first, last);
    }
    first = last;
  }
}

template <class T>
void RunUnit(const AttentionUnit& unit) {
  std::fill(unit.sums, unit.sums + unit.queries * unit.head_dim, 0.f);
  std::fill(unit.sum, unit.sum + unit.queries, 0.f);
  std::fill(unit.max, unit.max + unit.queries, -std::numeric_limits<float>::infinity());
  const int first =
      *std::min_element(unit.first_position, unit.first_position + unit.queries) / kTile * kTile;
  if (unit.parents == nullptr) {
    StoredTiles<T>(unit, first,
                   *std::max_element(unit.end_position, unit.end_position + unit.queries));
  } else {
    const int tail = std::max(first, unit.context / kTile * kTile);
    StoredTiles<T>(unit, first, tail);
    TreeTiles<T>(unit, tail);
  }
  for (int q = 0; q < unit.queries; ++q) {
    const hn::CappedTag<float, 8> eight;  // divides head_dim
    const float sum = unit.sum[q] + std::exp(unit.sink[q] - unit.max[q]);
    const auto scale = hn::Set(eight, unit.value_scale / sum);
    const float* sums = unit.sums + q * unit.head_dim;
    for (size_t e = 0; e < unit.head_dim; e += hn::Lanes(eight)) {
      hn::StoreU(hn::Mul(hn::LoadU(eight, sums + e), scale), eight, unit.out[q] + e);
    }
  }
}

void AttentionRange(const Attention& attention, int begin, int end, float* scratch) {
  for (int i = begin; i < end; ++i) {
    const AttentionUnit unit(attention, i, scratch);
    switch (attention.kv.type) {
      case KvType::kF32: RunUnit<float>(unit); break;
      case KvType::kBf16: RunUnit<uint16_t>(unit); break;
      case KvType::kFp8: RunUnit<uint8_t>(unit); break;
      case KvType::kF16: OUTRIDER_CHECK(false);  // comes with f16 weights, which Pack refuses
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(AttentionRange);

}  // namespace

void ChooseAttention(CpuKernels& kernels) {
  kernels.attention = &HWY_DYNAMIC_DISPATCH(AttentionRange);
}

}  // namespace outrider
#endif  // HWY_ONCE
