// Forward passes before the first request, for which no request waits: memory is touched for the
// first time, a device loads its kernels, libraries choose their algorithms, and working memory
// grows to the needs of the largest batch. A device with too little memory for that is detected at
// start, and no request pays for any of this. They run on a thread of their own.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// Runs passes of `most_rows` tokens and fewer, down to one token, so that each product that a batch
// may need has been run once; limited by the batch size, positions and free pages. Then captures a
// device's graphs. Errors are those of Forward.
Status WarmUp(Model* model, int most_rows);

struct PassTime {
  int rows = 0;
  double seconds = 0;
};

// The cost of passes of 1, 2, 4, ... `most_rows` tokens that are all scored, as those of a draft
// are: the fastest of three runs each, within `most_seconds` in total. REQUIRES: the model has been
// warmed up.
Result<std::vector<PassTime>> TimePasses(Model* model, int most_rows, double most_seconds);

}  // namespace outrider
