#include "common/math/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

// Highway compiles this file once for each instruction set; HWY_DYNAMIC_DISPATCH picks one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/math/softmax.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// exp of smaller values is 0 in float; hn::Exp is defined from here on.
constexpr float kExpFloor = -103.f;
// Entries that a float lane sums before they are added to the double total.
constexpr size_t kTile = 2048;

// Below max, not NaN: the comparison is false for NaN.
HWY_INLINE V MaxIgnoringNan(V best, V x) { return hn::IfThenElse(hn::Gt(x, best), x, best); }

float RowMaxT(const float* x, size_t n) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const float none = -std::numeric_limits<float>::infinity();
  V best0 = hn::Set(d, none), best1 = best0, best2 = best0, best3 = best0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    best0 = MaxIgnoringNan(best0, hn::LoadU(d, x + i));
    best1 = MaxIgnoringNan(best1, hn::LoadU(d, x + i + lanes));
    best2 = MaxIgnoringNan(best2, hn::LoadU(d, x + i + 2 * lanes));
    best3 = MaxIgnoringNan(best3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) best0 = MaxIgnoringNan(best0, hn::LoadU(d, x + i));
  best0 = hn::Max(hn::Max(best0, best1), hn::Max(best2, best3));
  float best = hn::GetLane(hn::MaxOfLanes(d, best0));
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

float RowSumT(const float* x, size_t n) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, hn::LoadU(d, x + i));
    sum1 = hn::Add(sum1, hn::LoadU(d, x + i + lanes));
    sum2 = hn::Add(sum2, hn::LoadU(d, x + i + 2 * lanes));
    sum3 = hn::Add(sum3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, hn::LoadU(d, x + i));
  sum0 = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  float sum = hn::GetLane(hn::SumOfLanes(d, sum0));
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// 0 times a finite number is 0; 0 times NaN or infinity is NaN.
bool IsFiniteT(const float* x, size_t n) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  V sum0 = zero, sum1 = zero;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, x + i), zero, sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, x + i + lanes), zero, sum1);
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::MulAdd(hn::LoadU(d, x + i), zero, sum0);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += x[i] * 0.f;
  return sum == 0.f;
}

// The first index whose entry equals `value`, n if none.
size_t FindFirst(const float* x, size_t n, float value) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V wanted = hn::Set(d, value);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), wanted));
    if (lane >= 0) return i + static_cast<size_t>(lane);
  }
  while (i < n && x[i] != value) ++i;
  return i;
}

HWY_INLINE V ExpOrZero(D d, V x, V max, V inverse) {
  const V t = hn::Mul(hn::Sub(x, max), inverse);
  return hn::IfThenElseZero(hn::Ge(t, hn::Set(d, kExpFloor)), hn::Exp(d, t));
}

// x -> exp((x - max) * inverse); returns the sum.
double ExpT(float* x, size_t n, float max, float inverse) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V vmax = hn::Set(d, max), vinverse = hn::Set(d, inverse);
  double total = 0;
  size_t i = 0;
  while (i + lanes <= n) {
    const size_t end = std::min(n, i + kTile);
    V sum0 = hn::Zero(d), sum1 = sum0;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const V e0 = ExpOrZero(d, hn::LoadU(d, x + i), vmax, vinverse);
      const V e1 = ExpOrZero(d, hn::LoadU(d, x + i + lanes), vmax, vinverse);
      hn::StoreU(e0, d, x + i);
      hn::StoreU(e1, d, x + i + lanes);
      sum0 = hn::Add(sum0, e0);
      sum1 = hn::Add(sum1, e1);
    }
    for (; i + lanes <= end; i += lanes) {
      const V e = ExpOrZero(d, hn::LoadU(d, x + i), vmax, vinverse);
      hn::StoreU(e, d, x + i);
      sum0 = hn::Add(sum0, e);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1))));
  }
  if (i < n) {  // the same hn::Exp, so that equal entries stay equal at any index
    HWY_ALIGN float tail[hn::MaxLanes(d)] = {};
    std::copy(x + i, x + n, tail);
    hn::Store(ExpOrZero(d, hn::Load(d, tail), vmax, vinverse), d, tail);
    for (size_t k = 0; i < n; ++i, ++k) total += static_cast<double>(x[i] = tail[k]);
  }
  return total;
}

// The sum of f(i) over the whole vectors of n entries, from entry 0; *end becomes the first entry
// past them. Each tile is summed in float, the tiles in double.
template <class F>
HWY_INLINE double SumTiles(size_t n, size_t* end, const F& f) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  double total = 0;
  size_t i = 0;
  while (i + lanes <= n) {
    const size_t tile_end = std::min(n, i + kTile);
    V sum = hn::Zero(d);
    for (; i + lanes <= tile_end; i += lanes) sum = hn::Add(sum, f(i));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  *end = i;
  return total;
}

double ExpSumT(const float* x, size_t n, float max) {
  const D d;
  const V vmax = hn::Set(d, max), one = hn::Set(d, 1.f);
  size_t i = 0;
  double total = SumTiles(
      n, &i, [&](size_t at) HWY_ATTR { return ExpOrZero(d, hn::LoadU(d, x + at), vmax, one); });
  for (; i < n; ++i) {
    if (x[i] > -std::numeric_limits<float>::infinity()) {
      total += static_cast<double>(std::exp(x[i] - max));
    }
  }
  return total;
}

size_t CountAboveT(const float* x, size_t n, float threshold) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V t = hn::Set(d, threshold);
  size_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) count += hn::CountTrue(d, hn::Gt(hn::LoadU(d, x + i), t));
  for (; i < n; ++i) count += x[i] > threshold ? 1 : 0;
  return count;
}

void ScaleT(float* x, size_t n, float factor) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V f = hn::Set(d, factor);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, x + i);
  for (; i < n; ++i) x[i] *= factor;
}

double ZeroBelowT(float* x, size_t n, float floor) {
  const D d;
  const V f = hn::Set(d, floor);
  size_t i = 0;
  double total = SumTiles(n, &i, [&](size_t at) HWY_ATTR {
    const V v = hn::LoadU(d, x + at);
    const V kept = hn::IfThenElseZero(hn::Ge(v, f), v);
    hn::StoreU(kept, d, x + at);
    return kept;
  });
  for (; i < n; ++i) {
    if (!(x[i] >= floor)) x[i] = 0.f;
    total += static_cast<double>(x[i]);
  }
  return total;
}

// Appends the entries above `threshold` from `begin` on until `out` has `capacity`; returns where
// it stopped.
size_t CollectAboveT(const float* x, size_t begin, size_t n, float threshold, size_t capacity,
                     std::vector<RowEntry>& out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V t = hn::Set(d, threshold);
  size_t i = begin;
  for (; i + lanes <= n && out.size() + lanes <= capacity; i += lanes) {
    if (HWY_LIKELY(hn::AllFalse(d, hn::Gt(hn::LoadU(d, x + i), t)))) continue;
    for (size_t k = i; k < i + lanes; ++k) {
      if (x[k] > threshold) out.push_back({static_cast<TokenId>(k), x[k]});
    }
  }
  for (; n - i < lanes && i < n && out.size() < capacity; ++i) {
    if (x[i] > threshold) out.push_back({static_cast<TokenId>(i), x[i]});
  }
  return i;
}

}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

HWY_EXPORT(RowMaxT);
HWY_EXPORT(RowSumT);
HWY_EXPORT(IsFiniteT);
HWY_EXPORT(FindFirst);
HWY_EXPORT(ExpT);
HWY_EXPORT(ExpSumT);
HWY_EXPORT(CountAboveT);
HWY_EXPORT(ScaleT);
HWY_EXPORT(ZeroBelowT);
HWY_EXPORT(CollectAboveT);

float RowMax(std::span<const float> row) {
  return HWY_DYNAMIC_DISPATCH(RowMaxT)(row.data(), row.size());
}

void TileMax(std::span<const float> row, size_t tile, std::span<float> largest) {
  const auto row_max = HWY_DYNAMIC_DISPATCH(RowMaxT);
  for (size_t i = 0; i < largest.size(); ++i) {
    const size_t begin = i * tile;
    largest[i] = row_max(row.data() + begin, std::min(tile, row.size() - begin));
  }
}

void TileSums(std::span<const float> row, size_t tile, std::span<float> sums) {
  const auto row_sum = HWY_DYNAMIC_DISPATCH(RowSumT);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t begin = i * tile;
    sums[i] = row_sum(row.data() + begin, std::min(tile, row.size() - begin));
  }
}

bool IsFinite(std::span<const float> row) {
  return HWY_DYNAMIC_DISPATCH(IsFiniteT)(row.data(), row.size());
}

TokenId RowArgmax(std::span<const float> row) {
  const float max = RowMax(row);
  if (max == -std::numeric_limits<float>::infinity()) return 0;
  return static_cast<TokenId>(HWY_DYNAMIC_DISPATCH(FindFirst)(row.data(), row.size(), max));
}

void Scale(std::span<float> row, float factor) {
  HWY_DYNAMIC_DISPATCH(ScaleT)(row.data(), row.size(), factor);
}

double ExpSum(std::span<const float> row, float max) {
  return HWY_DYNAMIC_DISPATCH(ExpSumT)(row.data(), row.size(), max);
}

int CountAbove(std::span<const float> row, float threshold) {
  return static_cast<int>(HWY_DYNAMIC_DISPATCH(CountAboveT)(row.data(), row.size(), threshold));
}

double ZeroBelow(std::span<float> row, float floor) {
  return HWY_DYNAMIC_DISPATCH(ZeroBelowT)(row.data(), row.size(), floor);
}

void Softmax(std::span<float> row, float temperature) {
  if (row.empty()) return;
  const float max = RowMax(row);
  if (!std::isfinite(max)) {
    for (float& x : row) x = max > 0 && x == max ? 1.f : 0.f;
    const auto tops = std::count(row.begin(), row.end(), 1.f);
    if (tops == 0) row[0] = 1.f;
    Scale(row, 1.f / static_cast<float>(std::max<std::ptrdiff_t>(tops, 1)));
    return;
  }
  // A temperature near 0 must not give 0 * infinity for the largest entry.
  const float inverse = std::min(1.f / temperature, std::numeric_limits<float>::max());
  const double sum = HWY_DYNAMIC_DISPATCH(ExpT)(row.data(), row.size(), max, inverse);
  Scale(row, static_cast<float>(1.0 / sum));
}

namespace {

// The first `wanted` entries above `threshold` in the order of LargerFirst; only the last one is at
// its sorted position.
std::vector<RowEntry> SelectTop(std::span<const float> row, size_t wanted, float threshold) {
  std::vector<RowEntry> held;
  if (wanted == 0) return held;
  const size_t capacity = 4 * wanted + 64;  // 64: no instruction set has more lanes
  held.reserve(capacity);
  for (size_t next = 0; next < row.size();) {
    next = HWY_DYNAMIC_DISPATCH(CollectAboveT)(row.data(), next, row.size(), threshold, capacity,
                                               held);
    if (held.size() < wanted) continue;
    // Later entries have higher ids, so one that only equals the last kept value has lost the tie.
    std::nth_element(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(wanted) - 1,
                     held.end(), LargerFirst);
    held.resize(wanted);
    threshold = held.back().value;
  }
  return held;
}

std::vector<RowEntry> SortedTop(std::span<const float> row, int count, float threshold) {
  const auto wanted = static_cast<size_t>(std::max(count, 0));
  std::vector<RowEntry> top = SelectTop(row, std::min(wanted, row.size()), threshold);
  std::sort(top.begin(), top.end(), LargerFirst);
  return top;
}

}  // namespace

std::vector<RowEntry> TopEntries(std::span<const float> row, int count) {
  return SortedTop(row, count, 0);
}

std::vector<RowEntry> LargestEntries(std::span<const float> row, int count) {
  return SortedTop(row, count, -std::numeric_limits<float>::infinity());
}

void AppendAbove(std::span<const float> row, float threshold, std::vector<RowEntry>& out) {
  HWY_DYNAMIC_DISPATCH(CollectAboveT)
  (row.data(), 0, row.size(), threshold, out.size() + row.size(), out);
}

RowEntry KthLargest(std::span<const float> row, int count) {
  if (count <= 0 || static_cast<size_t>(count) > row.size()) return {};
  const std::vector<RowEntry> top = SelectTop(row, static_cast<size_t>(count), 0);
  return top.size() == static_cast<size_t>(count) ? top.back() : RowEntry{};
}

}  // namespace outrider
#endif  // HWY_ONCE
