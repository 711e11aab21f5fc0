#include "common/kv/page_pool.h"

#include "common/base/check.h"

namespace outrider {

PagePool::PagePool(int pages) {
  OUTRIDER_CHECK(pages >= 0);
  references_.resize(static_cast<size_t>(pages), 0);
  free_.reserve(static_cast<size_t>(pages));
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
}

int32_t PagePool::Take() {
  OUTRIDER_CHECK(!free_.empty());
  const int32_t page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::Share(int32_t page) {
  OUTRIDER_CHECK(references_[static_cast<size_t>(page)] > 0);
  ++references_[static_cast<size_t>(page)];
}

void PagePool::Drop(int32_t page) {
  int32_t& references = references_[static_cast<size_t>(page)];
  OUTRIDER_CHECK(references > 0);
  if (--references == 0) free_.push_back(page);
}

}  // namespace outrider
