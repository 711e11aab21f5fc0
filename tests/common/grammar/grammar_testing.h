// Short forms for grammars, and small vocabularies whose tokens cross every boundary of a grammar.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/grammar/grammar.h"
#include "common/grammar/grammar_masks.h"
#include "common/grammar/grammar_state.h"
#include "common/grammar/token_table.h"

namespace outrider::grammar {

using Kind = GrammarSource::Kind;
using GrammarPtr = std::shared_ptr<const Grammar>;

inline GrammarPtr Compiled(Kind kind, const std::string& text, const GrammarLimits& limits = {}) {
  const auto grammar = Grammar::Compile({.kind = kind, .text = text, .choices = {}}, limits);
  EXPECT_TRUE(grammar.ok()) << text.substr(0, 200) << "\n" << grammar.status().ToString();
  return grammar.ok() ? *grammar : nullptr;
}

inline GrammarPtr OneOf(std::vector<std::string> choices) {
  return Grammar::Compile({.kind = Kind::kChoice, .text = "", .choices = std::move(choices)})
      .value();
}

inline std::string Refusal(Kind kind, const std::string& text, const GrammarLimits& limits = {}) {
  const auto grammar = Grammar::Compile({.kind = kind, .text = text, .choices = {}}, limits);
  EXPECT_EQ(grammar.status().code(), Code::kInvalidArgument) << text.substr(0, 200);
  return grammar.status().message();
}

inline bool Accepts(const GrammarPtr& grammar, std::string_view text) {
  Stepper stepper;
  GrammarState state(grammar);
  return (text.empty() || state.Advance(text, stepper)) && state.is_accepting();
}

// Every single byte, every substring of `samples` of up to `longest` bytes, and two end tokens.
inline std::shared_ptr<const TokenTable> TokensOf(const std::vector<std::string>& samples,
                                                  size_t longest) {
  std::set<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.insert(std::string(1, static_cast<char>(byte)));
  for (const std::string& sample : samples) {
    for (size_t pos = 0; pos < sample.size(); ++pos) {
      for (size_t size = 2; size <= longest && pos + size <= sample.size(); ++size) {
        texts.insert(sample.substr(pos, size));
      }
    }
  }
  std::vector<std::string> shuffled(texts.begin(), texts.end());
  std::mt19937 rng(1);
  std::shuffle(shuffled.begin(), shuffled.end(), rng);
  shuffled.insert(shuffled.begin(), "");  // a special token
  std::vector<std::string_view> bytes(shuffled.begin(), shuffled.end());
  const auto vocab = static_cast<int>(bytes.size()) + 5;
  return TokenTable::Create(bytes, std::vector<TokenId>{0, vocab - 2}, vocab).value();
}

// 100,000 tokens: every byte, words, and runs of up to 128 spaces, as in real vocabularies.
inline std::shared_ptr<const TokenTable> BigVocabulary() {
  static constexpr size_t kTokens = 100'000;
  std::set<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.insert(std::string(1, static_cast<char>(byte)));
  for (size_t size = 2; size <= 128; ++size) texts.insert(std::string(size, ' '));
  std::mt19937 rng(1);
  while (texts.size() + 1 < kTokens) {
    std::string word(rng() % 2, ' ');
    for (auto left = 2 + rng() % 8; left > 0; --left) word += static_cast<char>('a' + rng() % 26);
    texts.insert(word);
  }
  const std::vector<std::string_view> bytes(texts.begin(), texts.end());
  const auto end = static_cast<TokenId>(kTokens - 1);
  return TokenTable::Create(bytes, std::vector<TokenId>{end}, static_cast<int>(kTokens)).value();
}

inline bool HasBit(std::span<const MaskWord> mask, TokenId id) {
  return (mask[static_cast<size_t>(id) / kMaskBits] >> (id % kMaskBits) & 1) != 0;
}

}  // namespace outrider::grammar
