#include "common/backend/cpu/expert_routing.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// Whether `logit` ranks before `best`, which has a lower index.
bool ComesBefore(float logit, float best) {
  return std::isnan(logit) ? !std::isnan(best) : logit > best;
}

void ChooseForRow(const float* logits, const RouterShape& shape, int32_t* chosen, float* weights) {
  bool taken[kMaxExperts] = {};
  for (int i = 0; i < shape.top_k; ++i) {
    int best = -1;
    for (int e = 0; e < shape.experts; ++e) {
      if (!taken[e] && (best < 0 || ComesBefore(logits[e], logits[best]))) best = e;
    }
    taken[best] = true;
    chosen[i] = best;
  }
  const float largest = logits[chosen[0]];
  float sum = 0.f;
  for (int i = 0; i < shape.top_k; ++i) {
    weights[i] = std::exp(logits[chosen[i]] - largest);
    if (shape.normalizes) sum += weights[i];
  }
  if (!shape.normalizes) {
    for (int e = 0; e < shape.experts; ++e) sum += std::exp(logits[e] - largest);
  }
  for (int i = 0; i < shape.top_k; ++i) weights[i] /= sum;
}

}  // namespace

void ChooseExperts(const float* logits, const RouterShape& shape, const ExpertRouting& routing,
                   int begin, int end) {
  const auto experts = static_cast<size_t>(shape.experts);
  const auto top_k = static_cast<size_t>(shape.top_k);
  for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
    ChooseForRow(logits + row * experts, shape, routing.chosen + row * top_k,
                 routing.weights + row * top_k);
  }
}

void OrderPairs(const RouterShape& shape, const ExpertRouting& routing, int rows) {
  const int pairs = rows * shape.top_k;
  int32_t* const begin = routing.expert_begin;
  for (int e = 0; e <= shape.experts; ++e) begin[e] = 0;
  for (int pair = 0; pair < pairs; ++pair) ++begin[routing.chosen[pair] + 1];
  int32_t next[kMaxExperts];
  for (int e = 0; e < shape.experts; ++e) {
    next[e] = begin[e];
    begin[e + 1] += begin[e];
  }
  for (int pair = 0; pair < pairs; ++pair) {
    const int32_t index = next[routing.chosen[pair]]++;
    routing.sorted_index[pair] = index;
    routing.sorted_rows[index] = pair / shape.top_k;
  }
}

void CombineRows(const float* y, const RouterShape& shape, const ExpertRouting& routing, int n,
                 bool accumulate, float* out, int begin, int end) {
  const auto width = static_cast<size_t>(n);
  const auto top_k = static_cast<size_t>(shape.top_k);
  for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
    float* const to = out + row * width;
    if (!accumulate) std::fill(to, to + width, 0.f);
    for (size_t pair = row * top_k; pair < (row + 1) * top_k; ++pair) {
      const float weight = routing.weights[pair];
      const float* const from = y + static_cast<size_t>(routing.sorted_index[pair]) * width;
      for (size_t i = 0; i < width; ++i) to[i] += weight * from[i];
    }
  }
}

}  // namespace outrider
