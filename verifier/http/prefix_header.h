// The header x-outrider-prefix: a name for how a prompt begins, by which a proxy before several
// verifiers can send requests that begin alike to the same one (docs/http.md, "Routing").
//
// Thread: any.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "common/base/types.h"

namespace outrider {

inline constexpr char kPrefixHeader[] = "x-outrider-prefix";
// The pages of the prompt that the header names: 1,024 tokens, 16 a page.
inline constexpr size_t kPrefixHeaderPages = 64;

// The hash of the prompt's whole pages, of the first kPrefixHeaderPages; nullopt: it has none.
std::optional<std::string> PrefixNameOf(std::span<const TokenId> prompt, size_t page_tokens);

}  // namespace outrider
