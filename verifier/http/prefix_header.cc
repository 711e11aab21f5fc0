#include "verifier/http/prefix_header.h"

#include <algorithm>

#include "common/routing/page_hashes.h"

namespace outrider {

std::optional<std::string> PrefixNameOf(std::span<const TokenId> prompt, size_t page_tokens) {
  const size_t pages = std::min(prompt.size() / page_tokens, kPrefixHeaderPages);
  if (pages == 0) return std::nullopt;
  return PageHashText(ExtendPageHash(kNoPages, prompt.first(pages * page_tokens)));
}

}  // namespace outrider
