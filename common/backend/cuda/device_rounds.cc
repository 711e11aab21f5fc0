#include "common/backend/cuda/device_rounds.h"

#include "common/backend/cuda/kernels/rules.h"
#include "common/backend/cuda/kernels/sampling.h"
#include "common/base/check.h"

namespace outrider {

DeviceRounds::DeviceRounds(const Stream* stream)
    : stream_(*stream),
      ring_(stream, MemoryKind::kDeviceOutsideGraphs),
      scratch_(stream, MemoryKind::kDeviceOutsideGraphs),
      matches_(stream, MemoryKind::kDeviceOutsideGraphs),
      broken_(stream, MemoryKind::kDeviceOutsideGraphs),
      device_results_(stream, MemoryKind::kDeviceOutsideGraphs),
      results_(stream, MemoryKind::kPinnedHost) {}

void DeviceRounds::Decide(const RoundBatch& batch, const LogitRows& rows) {
  OUTRIDER_CHECK(0 < rows.allowed && rows.allowed <= rows.vocab && rows.vocab <= kMaxVocabulary);
  ring_.Reset();
  rounds_ = static_cast<size_t>(batch.size());
  nodes_ = static_cast<size_t>(batch.nodes());
  if (rounds_ == 0) return;

  DeviceRoundArrays arrays{.rounds = batch.size(),
                           .nodes = batch.nodes(),
                           .logits = rows.data,
                           .vocab = rows.vocab,
                           .allowed = rows.allowed};
  arrays.batch =
      batch.Copy([this](const auto& host) { return ring_.Add(host.data(), host.size()); });
  ring_.Send();
  for (const RoundHeader& round : batch.rounds()) {
    (round.kind() == DraftKind::kRace ? arrays.races : arrays.others) = true;
  }
  arrays.matches = static_cast<TokenId*>(matches_.AtLeast(nodes_ * sizeof(TokenId)));
  arrays.broken = static_cast<uint8_t*>(broken_.AtLeast(nodes_));
  arrays.scratch =
      static_cast<unsigned char*>(scratch_.AtLeast(static_cast<size_t>(batch.scratch_bytes())));
  arrays.decided = static_cast<DecidedRound*>(device_results_.AtLeast(bytes()));
  arrays.acceptance = reinterpret_cast<uint8_t*>(arrays.decided + rounds_);
  results_.AtLeast(bytes());
  MustSucceed(LaunchSampleRows(arrays, stream_.get()), "sampling rows");
  MustSucceed(LaunchRules(arrays, stream_.get()), "deciding rounds");
  MustSucceed(cudaMemcpyAsync(results_.data(), arrays.decided, bytes(), cudaMemcpyDeviceToHost,
                              stream_.get()),
              "copying verdicts");
}

Decisions DeviceRounds::Decided() {
  if (rounds_ == 0) return {};
  stream_.Wait();
  const auto* decided = static_cast<const DecidedRound*>(results_.data());
  return {{decided, rounds_}, {reinterpret_cast<const uint8_t*>(decided + rounds_), nodes_}};
}

}  // namespace outrider
