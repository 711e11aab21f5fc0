#include "common/backend/cuda/device_picks.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "common/base/check.h"

namespace outrider {
namespace {

constexpr size_t kLeastBytes = size_t{1} << 16;  // so that it rarely grows

}  // namespace

DevicePicks::DevicePicks(const Stream* stream)
    : stream_(*stream),
      ring_(stream, MemoryKind::kDeviceOutsideGraphs),
      device_results_(stream, MemoryKind::kDeviceOutsideGraphs),
      results_(stream, MemoryKind::kPinnedHost),
      sampled_(stream, MemoryKind::kDeviceOutsideGraphs),
      parts_(stream, MemoryKind::kDeviceOutsideGraphs) {}

void DevicePicks::Upload(const PickBatch& batch, float* rows, int vocab) {
  OUTRIDER_CHECK(vocab <= kMaxVocabulary);
  ring_.Reset();
  arrays_ = {.logits = rows, .vocab = vocab, .count = static_cast<int>(rows_.size())};
  int32_t entries = 0, longest = 0;
  for (BatchedPick& row : rows_) {
    OUTRIDER_CHECK(0 < row.spec.allowed && row.spec.allowed <= vocab && row.spec.count > 0);
    row.spec.count = std::min(row.spec.count, row.spec.allowed);
    row.first_entry = entries;
    entries += row.spec.count;
    longest = std::max(longest, row.depth);
    const bool is_race = row.spec.pick == RowPick::kRace;
    (is_race ? arrays_.races : arrays_.others) = true;
    if (!IsReadInParts(row.spec)) continue;
    (is_race ? arrays_.parts_of_races : arrays_.parts_of_others) = true;
    arrays_.parts_have_summaries |= NeedsSummaries(row.spec);
  }
  PlaceParts();
  std::vector<int32_t> parents(static_cast<size_t>(longest) + 1);
  std::iota(parents.begin(), parents.end(), -1);
  key_ = {vocab,
          arrays_.count,
          arrays_.races,
          arrays_.others,
          arrays_.parts_of_races,
          arrays_.parts_of_others,
          arrays_.parts_have_summaries};
  const auto send = [this](const auto& host) {
    const size_t room = std::bit_ceil(host.size());
    key_.push_back(static_cast<int32_t>(room));
    return ring_.Add(host.data(), host.size(), room);
  };
  arrays_.rows = send(rows_);
  arrays_.seen = send(batch.seen());
  arrays_.biases = send(batch.biases());
  arrays_.mask = send(batch.mask());
  arrays_.path_tokens = const_cast<TokenId*>(send(batch.path_tokens()));
  arrays_.path_parents = send(parents);
  ring_.Send();

  bytes_ = rows_.size() * sizeof(PickHeader) + static_cast<size_t>(entries) * sizeof(RowEntry);
  const size_t room = std::max(kLeastBytes, bytes_);
  arrays_.headers = static_cast<PickHeader*>(device_results_.AtLeast(room));
  arrays_.entries = reinterpret_cast<RowEntry*>(arrays_.headers + rows_.size());
  results_.AtLeast(room);
}

// Memory for as many rows as are read in parts at once, whatever the batch, so that it never grows.
void DevicePicks::PlaceParts() {
  if (!arrays_.parts_of_races && !arrays_.parts_of_others) return;
  arrays_.parts_of_row = PartsOf(arrays_.vocab);
  const size_t parts = size_t{kRowsInParts} * static_cast<size_t>(arrays_.parts_of_row);
  auto* const memory =
      static_cast<unsigned char*>(parts_.AtLeast(parts * (kFoundBytesOfPart + sizeof(PickPart))));
  arrays_.found = memory;
  arrays_.parts = reinterpret_cast<PickPart*>(memory + parts * kFoundBytesOfPart);
}

void DevicePicks::CopyBack() {
  MustSucceed(cudaMemcpyAsync(results_.data(), arrays_.headers, bytes_, cudaMemcpyDeviceToHost,
                              stream_.get()),
              "copying entries");
}

void DevicePicks::Pick(const PickBatch& batch, float* rows, int vocab) {
  rows_ = batch.picks();
  bytes_ = 0;
  if (rows_.empty()) return;
  Upload(batch, rows, vocab);
  MustSucceed(LaunchPickRows(arrays_, stream_.get()), "reading rows");
  CopyBack();
}

void DevicePicks::BeginChains(const PickBatch& batch, float* rows, int vocab) {
  OUTRIDER_CHECK(!batch.empty());
  chains_ = batch.size();
  depths_ = batch.picks()[0].chain.depths;
  rows_.clear();
  for (int depth = 0; depth < depths_; ++depth) {
    for (int chain = 0; chain < chains_; ++chain) {
      BatchedPick row = batch.picks()[static_cast<size_t>(chain)];
      OUTRIDER_CHECK(row.chain.depths == depths_ && row.spec.count <= kMaxChainEntries);
      row.row = chain;
      row.spec.position += static_cast<uint32_t>(depth);
      row.chain.first_depth += static_cast<uint32_t>(depth);
      row.depth += depth;
      rows_.push_back(row);
    }
  }
  Upload(batch, rows, vocab);
  arrays_.sampled = static_cast<TokenId*>(
      sampled_.AtLeast(std::max(kLeastBytes, static_cast<size_t>(chains_) * sizeof(TokenId))));
  for (const int64_t moves : {ring_.moves(), device_results_.moves(), sampled_.moves()}) {
    key_.push_back(static_cast<int32_t>(moves));
  }
}

void DevicePicks::SampleDepth(int depth) {
  OUTRIDER_CHECK(0 <= depth && depth < depths_);
  PickArrays arrays = arrays_;
  arrays.rows += depth * chains_;
  arrays.headers += depth * chains_;
  arrays.count = chains_;
  MustSucceed(LaunchPickRows(arrays, stream_.get()), "reading rows");
  MustSucceed(LaunchSampleTokens(arrays, stream_.get()), "sampling tokens");
}

std::span<const PickedRow> DevicePicks::Picked() {
  picked_.clear();
  if (rows_.empty()) return {};
  stream_.Wait();
  const auto* headers = static_cast<const PickHeader*>(results_.data());
  const auto* entries = reinterpret_cast<const RowEntry*>(headers + rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    picked_.push_back(
        {.entries = {entries + rows_[i].first_entry, static_cast<size_t>(headers[i].entries)},
         .measure = headers[i].measure,
         .sampled = headers[i].sampled,
         .broken = headers[i].broken != 0});
  }
  return picked_;
}

}  // namespace outrider
