// Names the prefixes of a prompt: the prompt is cut in pages, and each page's hash is that of the
// prompt up to this page's end. So two prompts with the same hash at page i begin with the same i +
// 1 pages. It is FNV-1a, 64 bit, carried on from page to page, the same on every machine: clients,
// a gateway and a verifier's digest of its prefix cache may compare theirs.
//
// The hash decides where a request goes and what a digest lists, never which keys and values it
// reads: a verifier's prefix cache compares tokens. So a forged collision misroutes a request, and
// no more.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// The hash of no tokens and of no text.
inline constexpr uint64_t kNoPages = 0xCBF29CE484222325u;

// `hash` with `tokens` after it, each as eight little-endian bytes.
uint64_t ExtendPageHash(uint64_t hash, std::span<const TokenId> tokens);

// As others see it: 16 hexadecimal digits.
std::string PageHashText(uint64_t hash);

// One hash for each page of `page_bytes` bytes, at most `max_pages`. The last page may be a shorter
// one; an empty text has no page. REQUIRES: page_bytes > 0.
std::vector<uint64_t> TextPageHashes(std::string_view text, size_t page_bytes, size_t max_pages);

// The same for tokens.
std::vector<uint64_t> TokenPageHashes(std::span<const TokenId> tokens, size_t page_tokens,
                                      size_t max_pages);

}  // namespace outrider
