#include "common/model/warm_up.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "common/base/clock.h"

namespace outrider {
namespace {

Status RunPass(Model* model, int rows) {
  const std::vector<TokenId> tokens(static_cast<size_t>(rows), 0);
  const int32_t last_row = rows - 1;
  const SequenceId sequence = model->NewSequence();
  const ForwardSequence share = {
      .sequence = sequence, .tokens = tokens, .logit_rows = {&last_row, 1}};
  ForwardOutput output;
  Status ran = model->Forward({&share, 1}, /*want_hidden=*/false, &output);
  model->Release(sequence);
  return ran;
}

// Tokens that one sequence can take in one pass.
int MostRows(const Model& model) {
  return std::min({model.max_batch_tokens(), model.free_pages() * model.page_tokens(),
                   model.config().max_position_embeddings});
}

}  // namespace

Status WarmUp(Model* model, int most_rows) {
  int rows = std::min(most_rows, MostRows(*model));
  while (rows > 0) {
    OUTRIDER_TRY(RunPass(model, rows));
    // Algorithms are chosen for powers of two.
    rows = static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows)) / 2);
  }
  return Status();
}

Result<std::vector<PassTime>> TimePasses(Model* model, int most_rows, double most_seconds) {
  const int most = std::min(most_rows, MostRows(*model));
  const SteadyClock clock;
  const Time begin = clock.Now();
  std::vector<PassTime> times;
  for (int repetition = 0; repetition < 2; ++repetition) {
    for (int rows = 1; rows <= most; rows *= 2) {
      const Time start = clock.Now();
      if (Seconds(start - begin) >= most_seconds) return times;
      OUTRIDER_TRY(RunPass(model, rows));
      times.push_back({rows, Seconds(clock.Now() - start)});
    }
  }
  return times;
}

}  // namespace outrider
