#include "common/backend/cuda/device_rules.h"

#include <vector>

#include "common/backend/cuda/kernels/rules.h"
#include "common/backend/cuda/kernels/sampling.h"
#include "common/base/check.h"

namespace outrider {

DeviceRules::DeviceRules(const Stream* stream, int vocab, int allowed)
    : stream_(*stream),
      vocab_(vocab),
      allowed_(allowed),
      ring_(stream),
      scratch_(stream),
      matches_(stream),
      device_verdicts_(stream) {
  OUTRIDER_CHECK(0 < allowed && allowed <= vocab && vocab <= 1 << 20);
}

void DeviceRules::Verify(const VerifyBatch& batch, float* logits, int64_t stride) {
  ring_.Reset();
  sessions_ = batch.sessions();
  if (sessions_ == 0) return;
  const auto sessions = static_cast<size_t>(sessions_), rows = static_cast<size_t>(batch.rows());

  std::vector<BatchedRound> rounds = batch.rounds_;
  int64_t scratch_bytes = 0;
  for (BatchedRound& round : rounds) {
    OUTRIDER_CHECK(round.nodes > 0);
    round.scratch = scratch_bytes;
    scratch_bytes += RuleScratchBytes(round);
  }
  const auto send = [this](const auto& host) { return ring_.Add(host.data(), host.size()); };
  RoundArrays arrays{.rounds = send(rounds),
                     .seen = send(batch.seen_),
                     .biases = send(batch.biases_),
                     .round_of = send(batch.round_of_),
                     .parents = send(batch.parents_),
                     .depths = send(batch.depths_),
                     .tokens = send(batch.tokens_),
                     .draws_begin = send(batch.draws_end_),
                     .law_begin = send(batch.law_end_),
                     .draws = send(batch.draws_),
                     .law_ids = send(batch.law_ids_),
                     .law_weights = send(batch.law_weights_),
                     .logits = logits,
                     .stride = stride,
                     .vocab = vocab_,
                     .allowed = allowed_,
                     .rows = batch.rows(),
                     .sessions = sessions_};
  ring_.Send();
  arrays.matches = static_cast<TokenId*>(matches_.AtLeast(rows * sizeof(TokenId)));
  arrays.scratch =
      static_cast<unsigned char*>(scratch_.AtLeast(static_cast<size_t>(scratch_bytes)));
  const size_t bytes = sessions * sizeof(DeviceVerdict);
  arrays.verdicts = static_cast<DeviceVerdict*>(device_verdicts_.AtLeast(bytes));
  if (verdicts_ == nullptr || verdicts_->bytes() < bytes) {
    Result<std::unique_ptr<CudaBuffer>> pinned =
        CudaBuffer::Allocate(Place::kPinnedHost, 2 * bytes);
    if (!pinned.ok()) CheckFailed(pinned.status().message().c_str(), __FILE__, __LINE__);
    verdicts_ = std::move(pinned).value();
  }
  MustSucceed(LaunchWarpRows(arrays, stream_.get()), "warping rows");
  MustSucceed(LaunchRules(arrays, stream_.get()), "verifying");
  MustSucceed(cudaMemcpyAsync(verdicts_->data(), arrays.verdicts, bytes, cudaMemcpyDeviceToHost,
                              stream_.get()),
              "copying verdicts");
}

std::span<const DeviceVerdict> DeviceRules::Verdicts() {
  if (sessions_ == 0) return {};
  stream_.Wait();
  return {static_cast<const DeviceVerdict*>(verdicts_->data()), static_cast<size_t>(sessions_)};
}

}  // namespace outrider
