// What the leading rank tells the others to do, as messages of a RankChannel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/batch_layout.h"
#include "common/base/types.h"

namespace outrider {

enum class RankOrder : int32_t { kRun, kCapture, kCopyKvSlots };

// kRun or kCapture of a pass, without its windows, which every rank knows.
void EncodePass(RankOrder order, const BatchLayout& batch, std::vector<int32_t>* message);
void EncodeCopies(std::span<const SlotCopy> copies, std::vector<int32_t>* message);

RankOrder OrderOf(std::span<const int32_t> message);
// The pass of such a message; its arrays are views of the message. REQUIRES: OrderOf says so.
BatchLayout DecodePass(std::span<const int32_t> message);
std::vector<SlotCopy> DecodeCopies(std::span<const int32_t> message);

}  // namespace outrider
