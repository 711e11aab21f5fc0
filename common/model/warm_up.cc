#include "common/model/warm_up.h"

#include <algorithm>
#include <bit>
#include <vector>

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

}  // namespace

Status WarmUp(Model* model) {
  int rows = std::min({model->max_batch_tokens(), model->free_pages() * model->page_tokens(),
                       model->config().max_position_embeddings});
  while (rows > 0) {
    OUTRIDER_TRY(RunPass(model, rows));
    // Algorithms are chosen for powers of two.
    rows = static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows)) / 2);
  }
  return Status();
}

}  // namespace outrider
