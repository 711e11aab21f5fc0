#include "tests/conformance/attention_cases.h"

#include <algorithm>
#include <iterator>

namespace outrider {
namespace {

// For up to eight heads: below, among and above the scores.
constexpr float kSinks[] = {0.5f, -4.f, 3.f, 9.f, -1.f, 1.5f, 0.f, -90.f};

// heads, kv heads, head_dim, page_tokens, window, soft cap, query scalar, unrotated, sinks
const AttentionCase kAllCases[] = {
    {{1, 1, 8, 1, 0}, KvType::kF32, {0}, {1}},
    {{2, 1, 8, 3, 0}, KvType::kF32, {5}, {4}},
    {{4, 2, 16, 4, 0}, KvType::kF32, {0, 17}, {5, 1}},
    {{4, 4, 24, 5, 0}, KvType::kF32, {31, 0, 2}, {1, 33, 7}},
    {{6, 2, 32, 16, 0}, KvType::kF32, {63, 64, 65}, {1, 1, 1}},
    {{4, 2, 64, 16, 0}, KvType::kF32, {200, 7}, {8, 70}},
    {{8, 1, 72, 8, 0}, KvType::kF32, {100}, {9}},
    {{3, 3, 128, 16, 0}, KvType::kF32, {129}, {17}},
    {{2, 1, 256, 32, 0}, KvType::kF32, {40, 300}, {3, 2}},
    {{4, 2, 32, 16, 7}, KvType::kF32, {3, 100}, {20, 5}},
    {{4, 2, 32, 16, 70}, KvType::kF32, {200}, {90}},
    {{2, 2, 16, 4, 1}, KvType::kF32, {9}, {6}},
    {{4, 2, 32, 16, 70, 1.5f, 20.f}, KvType::kF32, {200, 3}, {9, 30}},
    {{4, 2, 64, 16, 0}, KvType::kBf16, {200, 7}, {8, 70}},
    {{4, 2, 64, 16, 30, 1.5f, 100.f}, KvType::kBf16, {200, 7}, {8, 70}},
    {{2, 1, 40, 16, 0, 1.f, 0}, KvType::kBf16, {20}, {9}},
    {{4, 1, 40, 7, 33}, KvType::kBf16, {50, 0}, {12, 3}},
    {{3, 1, 128, 16, 0}, KvType::kBf16, {31, 5}, {3, 20}},
    {{7, 1, 80, 16, 20}, KvType::kBf16, {40}, {11}},
    {{2, 2, 256, 16, 0}, KvType::kBf16, {17}, {4}},
    {{4, 2, 32, 16, 0, 0, 0, 8}, KvType::kF32, {40, 3}, {9, 30}},
    {{2, 1, 40, 7, 33, 0, 0, 30}, KvType::kF32, {50}, {12}},
    {{4, 2, 64, 16, 0, 0, 0, 64}, KvType::kF32, {70}, {20}},
    {{3, 1, 128, 16, 0, 0, 0, 32}, KvType::kBf16, {31, 5}, {3, 20}},
    {{2, 2, 80, 16, 0, 0, 0, 80}, KvType::kBf16, {40}, {11}},
    {{8, 2, 64, 16, 0, 0, 0, 0, kSinks}, KvType::kF32, {300, 7}, {8, 70}},
    {{4, 2, 40, 5, 24, 1.5f, 0, 0, kSinks}, KvType::kF32, {50}, {12}},
    {{8, 1, 64, 16, 30, 0, 0, 0, kSinks}, KvType::kBf16, {300, 0}, {9, 3}},
    {{4, 2, 64, 16, 0}, KvType::kF16, {200, 7}, {8, 70}},
    {{6, 2, 40, 7, 33}, KvType::kF16, {50, 0}, {12, 3}},
    {{1, 1, 8, 1, 0}, KvType::kFp8, {0}, {1}},
    {{4, 4, 24, 5, 0}, KvType::kFp8, {31, 0, 2}, {1, 33, 7}},
    {{4, 2, 64, 16, 0}, KvType::kFp8, {200, 7}, {8, 70}},
    {{4, 2, 64, 16, 30, 1.5f, 100.f}, KvType::kFp8, {200, 7}, {8, 70}},
    {{2, 1, 40, 7, 33, 0, 0, 30}, KvType::kFp8, {50}, {12}},
    {{8, 2, 128, 16, 0, 0, 0, 0, kSinks}, KvType::kFp8, {300, 7}, {3, 20}},
    {{2, 1, 256, 32, 0}, KvType::kFp8, {40, 300}, {3, 2}},
};

}  // namespace

std::string Describe(const AttentionCase& c) {
  const AttentionShape& s = c.shape;
  return std::to_string(s.num_heads) + " heads, " + std::to_string(s.num_kv_heads) +
         " kv heads of " + std::to_string(s.head_dim) + ", pages of " +
         std::to_string(s.page_tokens) + ", window " + std::to_string(s.sliding_window) +
         ", soft cap " + std::to_string(s.soft_cap) + ", unrotated " + std::to_string(s.unrotated) +
         (s.sinks != nullptr ? ", sinks, " : ", ") + KvTypeName(c.type);
}

std::vector<AttentionCase> AttentionTest::Cases() {
  const std::vector<WeightType>& weights = GetParam().weights;
  const bool f16 = std::find(weights.begin(), weights.end(), WeightType::kF16) != weights.end();
  std::vector<AttentionCase> cases(std::begin(kAllCases), std::end(kAllCases));
  if (!f16) std::erase_if(cases, [](const AttentionCase& c) { return c.type == KvType::kF16; });
  return cases;
}

}  // namespace outrider
