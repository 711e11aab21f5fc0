// Shapes, cache types, contexts and batches that the attention tests run on every backend.
#pragma once

#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "tests/conformance/backends.h"

namespace outrider {

struct AttentionCase {
  AttentionShape shape;
  KvType type;
  std::vector<int> contexts;  // tokens before the batch, per sequence
  std::vector<int> rows;      // of the batch, per sequence
};

// More tokens than any case needs.
constexpr int kCacheTokens = 512;

std::string Describe(const AttentionCase& c);

class AttentionTest : public ConformanceTest {
 protected:
  // Those that the backend can run: an f16 cache requires f16 weights.
  static std::vector<AttentionCase> Cases();
};

}  // namespace outrider
