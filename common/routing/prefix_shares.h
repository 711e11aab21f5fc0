// Counts how many of the recent requests begin with a prefix, to tell prefixes that many requests
// share (a system prompt) from those of a few (a chat, a document).
//
// Recent: the current window of requests and the one before it. Prefixes are pages, each with its
// hash (page_hashes.h). Of a prompt, the pages that recent ones had are counted and the next
// kNewPages, so a window holds at most that many for each of its requests, and a long prefix that
// many share is known as a whole after a few of them.
//
// Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

namespace outrider {

class PrefixShares {
 public:
  static constexpr int kNewPages = 16;

  // Counts a request. `window`: how many make one, at least 1.
  void Count(std::span<const uint64_t> pages, int64_t window);

  // Number of recent requests.
  int64_t requests() const { return now_.requests + before_.requests; }
  // How many of these have this page: no more than have the page before it.
  int64_t CountOf(uint64_t page) const { return now_.CountOf(page) + before_.CountOf(page); }

 private:
  struct Window {
    int64_t requests = 0;
    std::unordered_map<uint64_t, int64_t> pages;

    int64_t CountOf(uint64_t page) const {
      const auto found = pages.find(page);
      return found == pages.end() ? 0 : found->second;
    }
  };
  Window now_;
  Window before_;
};

}  // namespace outrider
