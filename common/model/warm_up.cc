#include "common/model/warm_up.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <future>
#include <numeric>
#include <vector>

#include "common/base/clock.h"
#include "common/rules/round_batch.h"

namespace outrider {
namespace {

// Distinct tokens, so that rows of a mixture of experts choose different experts, as those of a
// text do: equal tokens would make additional rows look free.
std::vector<TokenId> SpreadTokens(int count, int vocab_size) {
  constexpr uint32_t kStep = 2654435761u;  // Knuth 1998, section 6.4: multiples are far apart
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
    tokens.push_back(static_cast<TokenId>(i * kStep % static_cast<uint32_t>(vocab_size)));
  }
  return tokens;
}

// One pass over a new sequence's first `rows` tokens. All rows are scored, as those of a draft are,
// so the output head's products are those of any batch. Their logits stay where they are, as those
// of a round do: memory of the host for all rows of the largest batch can be gigabytes.
Status RunPass(Model* model, int rows) {
  const std::vector<TokenId> tokens = SpreadTokens(rows, model->config().vocab_size);
  std::vector<int32_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  const SequenceId sequence = model->NewSequence();
  const ForwardSequence share = {
      .sequence = sequence, .tokens = tokens, .logit_rows = all, .logits_to_host = false};
  ForwardOutput output;
  Status ran = model->Forward({&share, 1}, /*want_hidden=*/false, &output);
  // Without rounds, only waits for the pass.
  if (ran.ok()) model->Decide(RoundBatch(), model->config().vocab_size);
  model->Release(sequence);
  return ran;
}

// The next smaller size to run. A device's library chooses one algorithm for all products up to
// each multiple of 16 rows to 128, and up to each power of two beyond (cuda/product_choice.h), at
// the first product of the bucket.
int Below(int rows) {
  if (rows > 16 && rows <= 128) return (rows - 1) / 16 * 16;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows)) / 2);
}

// Tokens that one sequence can run in one pass.
int MostRows(const Model& model) {
  return std::min({model.max_batch_tokens(), model.free_pages() * model.page_tokens(),
                   model.config().max_position_embeddings});
}

Status RunPasses(Model* model, int most_rows) {
  for (int rows = std::min(most_rows, MostRows(*model)); rows > 0; rows = Below(rows)) {
    OUTRIDER_TRY(RunPass(model, rows));
  }
  if (DeviceModel* const device = model->device(); device != nullptr) device->CaptureGraphs();
  return Status();
}

Result<std::vector<PassTime>> RunTimedPasses(Model* model, int most_rows, double most_seconds) {
  const int max_rows = std::min(most_rows, MostRows(*model));
  const SteadyClock clock;
  const Time begin = clock.Now();
  std::vector<PassTime> times;
  // A device that runs passes as graphs captures them at the second pass of a kind.
  constexpr int kRepetitions = 3;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    size_t index = 0;
    for (int rows = 1; rows <= max_rows; rows *= 2, ++index) {
      const Time start = clock.Now();
      if (Seconds(start - begin) >= most_seconds) return times;
      OUTRIDER_TRY(RunPass(model, rows));
      const double seconds = Seconds(clock.Now() - start);
      if (index == times.size()) times.push_back({rows, seconds});
      times[index].seconds = std::min(times[index].seconds, seconds);
    }
  }
  return times;
}

// Runs `work` on a thread that ends with it: a backend may pin the thread that computes to a core,
// and the caller's other threads, which it has yet to start, would be pinned with it.
template <class Work>
auto OnOwnThread(const Work& work) {
  return std::async(std::launch::async, work).get();
}

}  // namespace

Status WarmUp(Model* model, int most_rows) {
  return OnOwnThread([&] { return RunPasses(model, most_rows); });
}

Result<std::vector<PassTime>> TimePasses(Model* model, int most_rows, double most_seconds) {
  return OnOwnThread([&] { return RunTimedPasses(model, most_rows, most_seconds); });
}

}  // namespace outrider
