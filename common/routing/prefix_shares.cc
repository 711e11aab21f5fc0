#include "common/routing/prefix_shares.h"

#include <utility>

namespace outrider {

void PrefixShares::Count(std::span<const uint64_t> pages, int64_t window) {
  if (now_.requests >= window) {
    before_ = std::exchange(now_, Window{});
    now_.pages.reserve(before_.pages.size());
  }
  ++now_.requests;
  int new_pages = 0;
  for (const uint64_t page : pages) {
    if (CountOf(page) == 0 && ++new_pages > kNewPages) break;
    ++now_.pages[page];
  }
}

}  // namespace outrider
