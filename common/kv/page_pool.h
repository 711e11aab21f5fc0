// Hands out fixed-size KV pages by index and counts who holds them. Holds no memory: the model's
// backend owns the bytes, so this is the same on every device.
//
// Thread: the owner of the model; not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrider {

class PagePool {
 public:
  explicit PagePool(int pages);

  int total_pages() const { return static_cast<int>(references_.size()); }
  int free_pages() const { return static_cast<int>(free_.size()); }
  int references(int32_t page) const { return references_[static_cast<size_t>(page)]; }

  // A free page with one reference. REQUIRES: free_pages() > 0.
  int32_t Take();
  // One more holder of a page that is held already.
  void Share(int32_t page);
  // One holder less; the last one makes the page free.
  void Drop(int32_t page);

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;  // a stack: the page dropped last is the one most likely cached
};

}  // namespace outrider
