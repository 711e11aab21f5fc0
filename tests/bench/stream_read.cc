#include "tests/bench/stream_read.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/stream_read.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

float Read(const char* data, size_t bytes) {
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  const float* p = reinterpret_cast<const float*>(data);
  const size_t count = bytes / sizeof(float);
  // Four chains hide the latency of the additions.
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, hn::Load(d, p + i));
    b = hn::Add(b, hn::Load(d, p + i + lanes));
    c = hn::Add(c, hn::Load(d, p + i + 2 * lanes));
    e = hn::Add(e, hn::Load(d, p + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(Read);

}  // namespace

float StreamRead(const char* data, size_t bytes) { return HWY_DYNAMIC_DISPATCH(Read)(data, bytes); }

}  // namespace outrider
#endif  // HWY_ONCE
