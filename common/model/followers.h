// The other ranks of a model that runs on several devices, as the leading one sees them: they do
// what it does, on their part of each layer.
//
// Owner: the leading Model. Thread: its owner.
#pragma once

#include <span>

#include "common/backend/batch_layout.h"
#include "common/base/types.h"

namespace outrider {

class Followers {
 public:
  virtual ~Followers() = default;
  // To be called before the leading rank does the same. Arrays are read before the call returns.
  virtual void Run(const BatchLayout& batch) = 0;
  virtual void Capture(const BatchLayout& batch) = 0;
  virtual void CopyKvSlots(std::span<const SlotCopy> copies) = 0;
};

}  // namespace outrider
