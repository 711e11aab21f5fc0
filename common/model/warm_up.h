// Passes that nobody waits for, before the first request: memory is touched for the first time, a
// device loads its kernels, libraries choose their algorithms and working memory grows to what the
// largest batch takes. A device that lacks the memory for that is found at start, and no request's
// time holds it.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// Runs passes of `most_rows` tokens and fewer, so that each product that a batch may need has been
// made once, down to one token; as far as batches, positions and free pages go. Errors are
// Forward's.
Status WarmUp(Model* model, int most_rows);

struct PassTime {
  int rows = 0;
  double seconds = 0;
};

// What passes of 1, 2, 4, .. `most_rows` tokens cost that are all scored, as a draft's are: the
// fastest of three each, as far as `most_seconds` go. REQUIRES: it has been warmed up.
Result<std::vector<PassTime>> TimePasses(Model* model, int most_rows, double most_seconds);

}  // namespace outrider
