// The ops of a mixture of experts other than products, on the host. Each row's results depend on
// that row alone.
#pragma once

#include "common/backend/experts.h"

namespace outrider {

// Chooses the experts of rows [begin, end), as in Backend::RouteRows.
void ChooseExperts(const float* logits, const RouterShape& shape, const ExpertRouting& routing,
                   int begin, int end);
// Sorts the pairs once the experts are chosen: a counting sort by expert.
void OrderPairs(const RouterShape& shape, const ExpertRouting& routing, int rows);
// Rows [begin, end) of Backend::CombineExperts.
void CombineRows(const float* y, const RouterShape& shape, const ExpertRouting& routing, int n,
                 bool accumulate, float* out, int begin, int end);

}  // namespace outrider
