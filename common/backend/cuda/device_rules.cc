#include "common/backend/cuda/device_rules.h"

#include <vector>

#include "common/backend/cuda/kernels/rules.h"
#include "common/backend/cuda/kernels/sampling.h"
#include "common/base/check.h"

namespace outrider {

DeviceRules::DeviceRules(const Stream* stream)
    : stream_(*stream),
      ring_(stream),
      scratch_(stream),
      matches_(stream),
      broken_(stream),
      device_results_(stream),
      results_(stream, Place::kPinnedHost) {}

void DeviceRules::Verify(const VerifyBatch& batch, const LogitRows& rows) {
  OUTRIDER_CHECK(0 < rows.allowed && rows.allowed <= rows.vocab && rows.vocab <= kMaxVerifiedVocab);
  ring_.Reset();
  sessions_ = static_cast<size_t>(batch.sessions());
  rows_ = static_cast<size_t>(batch.rows());
  if (sessions_ == 0) return;

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
                     .logits = rows.data,
                     .vocab = rows.vocab,
                     .allowed = rows.allowed,
                     .rows = batch.rows(),
                     .sessions = batch.sessions()};
  ring_.Send();
  for (const BatchedRound& round : rounds) {
    (round.spec.rule == VerifyRule::kRace ? arrays.races : arrays.others) = true;
  }
  arrays.matches = static_cast<TokenId*>(matches_.AtLeast(rows_ * sizeof(TokenId)));
  arrays.broken = static_cast<uint8_t*>(broken_.AtLeast(rows_));
  arrays.scratch =
      static_cast<unsigned char*>(scratch_.AtLeast(static_cast<size_t>(scratch_bytes)));
  arrays.verdicts = static_cast<DeviceVerdict*>(device_results_.AtLeast(bytes()));
  arrays.acceptance = reinterpret_cast<uint8_t*>(arrays.verdicts + sessions_);
  results_.AtLeast(bytes());
  MustSucceed(LaunchWarpRows(arrays, stream_.get()), "warping rows");
  MustSucceed(LaunchRules(arrays, stream_.get()), "verifying");
  MustSucceed(cudaMemcpyAsync(results_.data(), arrays.verdicts, bytes(), cudaMemcpyDeviceToHost,
                              stream_.get()),
              "copying verdicts");
}

DeviceVerdicts DeviceRules::Verdicts() {
  if (sessions_ == 0) return {};
  stream_.Wait();
  const auto* verdicts = static_cast<const DeviceVerdict*>(results_.data());
  return {{verdicts, sessions_}, {reinterpret_cast<const uint8_t*>(verdicts + sessions_), rows_}};
}

}  // namespace outrider
