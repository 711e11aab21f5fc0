#include "common/ranks/pass_message.h"

#include <array>
#include <cstddef>

#include "common/base/check.h"

namespace outrider {
namespace {

// A pass begins with the order and the sizes of its arrays.
enum Header { kOrder, kRows, kSequences, kHasTokens, kHasParents, kLogitRows, kHeaderSize };

}  // namespace

void EncodePass(RankOrder order, const BatchLayout& batch, std::vector<int32_t>* message) {
  const std::array<int32_t, kHeaderSize> header = {
      static_cast<int32_t>(order), batch.rows,           batch.sequences, batch.tokens != nullptr,
      batch.parents != nullptr,    batch.logit_row_count};
  message->assign(header.begin(), header.end());
  const auto add = [message](const int32_t* values, int count) {
    if (values != nullptr) message->insert(message->end(), values, values + count);
  };
  add(batch.tokens, batch.rows);
  add(batch.positions, batch.rows);
  add(batch.slots, batch.rows);
  add(batch.parents, batch.rows);
  add(batch.row_begin, batch.sequences + 1);
  add(batch.context, batch.sequences);
  add(batch.page_begin, batch.sequences + 1);
  add(batch.logit_rows, batch.logit_row_count);
  add(batch.pages, batch.page_begin[batch.sequences]);
}

void EncodeCopies(std::span<const SlotCopy> copies, std::vector<int32_t>* message) {
  message->assign(1, static_cast<int32_t>(RankOrder::kCopyKvSlots));
  for (const SlotCopy& copy : copies) {
    message->push_back(copy.from);
    message->push_back(copy.to);
  }
}

RankOrder OrderOf(std::span<const int32_t> message) {
  OUTRIDER_CHECK(!message.empty());
  return static_cast<RankOrder>(message[kOrder]);
}

BatchLayout DecodePass(std::span<const int32_t> message) {
  OUTRIDER_CHECK(message.size() >= kHeaderSize);
  BatchLayout batch = {.rows = message[kRows], .sequences = message[kSequences]};
  batch.logit_row_count = message[kLogitRows];
  size_t next = kHeaderSize;
  const auto take = [&](int count) {
    const int32_t* const values = message.data() + next;
    next += static_cast<size_t>(count);
    OUTRIDER_CHECK(next <= message.size());
    return values;
  };
  if (message[kHasTokens] != 0) batch.tokens = take(batch.rows);
  batch.positions = take(batch.rows);
  batch.slots = take(batch.rows);
  if (message[kHasParents] != 0) batch.parents = take(batch.rows);
  batch.row_begin = take(batch.sequences + 1);
  batch.context = take(batch.sequences);
  batch.page_begin = take(batch.sequences + 1);
  batch.logit_rows = take(batch.logit_row_count);
  batch.pages = take(batch.page_begin[batch.sequences]);
  return batch;
}

std::vector<SlotCopy> DecodeCopies(std::span<const int32_t> message) {
  std::vector<SlotCopy> copies;
  for (size_t i = 1; i + 1 < message.size(); i += 2) copies.push_back({message[i], message[i + 1]});
  return copies;
}

}  // namespace outrider
