#include "common/backend/cuda/device_picks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/backend/verify_batch.h"
#include "common/base/check.h"

namespace outrider {

DevicePicks::DevicePicks(const Stream* stream)
    : stream_(*stream), ring_(stream), device_results_(stream) {}

void DevicePicks::Pick(const DraftBatch& batch, float* rows, int vocab) {
  OUTRIDER_CHECK(vocab <= kMaxVerifiedVocab);
  ring_.Reset();
  rows_ = batch.rows_;
  bytes_ = 0;
  if (rows_.empty()) return;

  PickArrays arrays{.logits = rows, .vocab = vocab, .count = batch.rows()};
  int32_t entries = 0, longest = 0;
  for (BatchedDraftRow& row : rows_) {
    OUTRIDER_CHECK(0 < row.spec.allowed && row.spec.allowed <= vocab && row.spec.count > 0);
    row.spec.count = std::min(row.spec.count, row.spec.allowed);
    row.first_entry = entries;
    entries += row.spec.count;
    longest = std::max(longest, row.depth);
    (row.spec.pick == RowPick::kRace ? arrays.races : arrays.others) = true;
  }
  std::vector<int32_t> parents(static_cast<size_t>(longest) + 1);
  std::iota(parents.begin(), parents.end(), -1);
  const auto send = [this](const auto& host) { return ring_.Add(host.data(), host.size()); };
  arrays.rows = send(rows_);
  arrays.seen = send(batch.seen_);
  arrays.biases = send(batch.biases_);
  arrays.path_tokens = send(batch.path_tokens_);
  arrays.path_parents = send(parents);
  ring_.Send();

  bytes_ = rows_.size() * sizeof(PickHeader) + static_cast<size_t>(entries) * sizeof(RowEntry);
  arrays.headers = static_cast<PickHeader*>(device_results_.AtLeast(bytes_));
  arrays.entries = reinterpret_cast<RowEntry*>(arrays.headers + rows_.size());
  if (results_ == nullptr || results_->bytes() < bytes_) {
    Result<std::unique_ptr<CudaBuffer>> pinned =
        CudaBuffer::Allocate(Place::kPinnedHost, 2 * bytes_);
    if (!pinned.ok()) CheckFailed(pinned.status().message().c_str(), __FILE__, __LINE__);
    results_ = std::move(pinned).value();
  }
  MustSucceed(LaunchPickRows(arrays, stream_.get()), "reading rows");
  MustSucceed(cudaMemcpyAsync(results_->data(), arrays.headers, bytes_, cudaMemcpyDeviceToHost,
                              stream_.get()),
              "copying entries");
}

std::span<const PickedRow> DevicePicks::Picked() {
  picked_.clear();
  if (rows_.empty()) return {};
  stream_.Wait();
  const auto* headers = static_cast<const PickHeader*>(results_->data());
  const auto* entries = reinterpret_cast<const RowEntry*>(headers + rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    picked_.push_back(
        {.entries = {entries + rows_[i].first_entry, static_cast<size_t>(headers[i].entries)},
         .measure = headers[i].measure});
  }
  return picked_;
}

}  // namespace outrider
