#include "common/routing/page_hashes.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "common/base/fnv_hash.h"

namespace outrider {
namespace {

// `extend(hash, begin, count)` hashes one page more.
template <typename Extend>
std::vector<uint64_t> HashPages(size_t size, size_t page, size_t max_pages, const Extend& extend) {
  std::vector<uint64_t> hashes;
  uint64_t hash = kNoPages;
  for (size_t begin = 0; begin < size && hashes.size() < max_pages; begin += page) {
    hash = extend(hash, begin, std::min(page, size - begin));
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

uint64_t ExtendPageHash(uint64_t hash, std::span<const TokenId> tokens) {
  FnvHash fnv(hash);
  for (const TokenId token : tokens) fnv.Add(static_cast<uint64_t>(token));
  return fnv.value();
}

std::string PageHashText(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

std::vector<uint64_t> TextPageHashes(std::string_view text, size_t page_bytes, size_t max_pages) {
  return HashPages(text.size(), page_bytes, max_pages,
                   [text](uint64_t hash, size_t begin, size_t count) {
                     FnvHash fnv(hash);
                     fnv.AddBytes(text.substr(begin, count));
                     return fnv.value();
                   });
}

std::vector<uint64_t> TokenPageHashes(std::span<const TokenId> tokens, size_t page_tokens,
                                      size_t max_pages) {
  return HashPages(tokens.size(), page_tokens, max_pages,
                   [tokens](uint64_t hash, size_t begin, size_t count) {
                     return ExtendPageHash(hash, tokens.subspan(begin, count));
                   });
}

}  // namespace outrider
