// Allocates fixed-size KV pages by index and counts references to them. It owns no memory: the
// pages' bytes belong to the model's backend, so this class is the same on every device.
//
// Thread: the owner of the model; not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace outrider {

class PagePool {
 public:
  explicit PagePool(int pages);

  int total_pages() const { return static_cast<int>(references_.size()); }
  int free_pages() const { return static_cast<int>(free_.size()); }
  int references(int32_t page) const { return references_[static_cast<size_t>(page)]; }
  // [total_pages()]: of all pages, by index.
  std::span<const int32_t> references() const { return references_; }

  // A free page with one reference. REQUIRES: free_pages() > 0.
  int32_t Take();
  // Adds a reference to an allocated page.
  void Share(int32_t page);
  // Removes a reference; at zero references the page becomes free.
  void Drop(int32_t page);

 private:
  std::vector<int32_t> references_;
  // A stack: the last dropped page is most likely still in the processor's cache.
  std::vector<int32_t> free_;
};

}  // namespace outrider
