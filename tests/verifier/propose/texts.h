// Texts for the proposers' tests, and the expected matches by a linear scan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider::testing {

using Text = std::vector<TokenId>;

// `size` tokens below `alphabet`; with `copies`, half of them are copies of earlier pieces.
inline Text RandomText(std::mt19937_64& rng, int size, int alphabet, bool copies = false) {
  Text text;
  while (static_cast<int>(text.size()) < size) {
    if (copies && text.size() > 8 && rng() % 8 == 0) {
      size_t from = rng() % (text.size() - 8);
      for (int i = 0; i < 8; ++i) text.push_back(text[from++]);
    } else {
      text.push_back(static_cast<TokenId>(rng() % static_cast<uint64_t>(alphabet)));
    }
  }
  text.resize(static_cast<size_t>(size));
  return text;
}

// A text with an automaton of the largest possible size (Blumer et al. 1985): abbb..b has 2n - 1
// states.
inline Text ManyStates(int size) {
  Text text(static_cast<size_t>(size), 1);
  if (size > 0) text[0] = 0;
  return text;
}

// abbb..bc: 3n - 4 transitions.
inline Text ManyTransitions(int size) {
  Text text = ManyStates(size);
  if (size > 0) text.back() = 2;
  return text;
}

// The length of the common suffix of a and b.
inline int CommonEnd(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto from = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  return static_cast<int>(from.first - a.rbegin());
}

// The longest suffix of `text` that also occurs earlier, by comparing with every prefix.
inline int LongestRepeatedSuffix(std::span<const TokenId> text) {
  int longest = 0;
  for (size_t end = 0; end < text.size(); ++end) {
    longest = std::max(longest, CommonEnd(text.first(end), text));
  }
  return longest;
}

// The longest suffix of `text` that ends anywhere in `corpus`.
inline int LongestSuffixIn(std::span<const TokenId> corpus, std::span<const TokenId> text) {
  int longest = 0;
  for (size_t end = 0; end <= corpus.size(); ++end) {
    longest = std::max(longest, CommonEnd(corpus.first(end), text));
  }
  return longest;
}

}  // namespace outrider::testing
