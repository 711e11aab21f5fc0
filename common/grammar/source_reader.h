// Reads a grammar's source character by character.
//
// Thread: one owner.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider::grammar {

class SourceReader {
 public:
  static constexpr char32_t kEnd = 0xFFFFFFFF;

  // REQUIRES: well-formed UTF-8.
  explicit SourceReader(std::string_view text);

  bool at_end() const { return at_ == text_.size(); }
  // The next character, or a later one; kEnd after the last.
  char32_t Peek(size_t ahead = 0) const {
    return ahead < text_.size() - at_ ? text_[at_ + ahead] : kEnd;
  }
  // REQUIRES: not at the end.
  char32_t Next() { return text_[at_++]; }
  bool Take(char32_t c);
  // REQUIRES: `text` is ASCII.
  bool TakeText(std::string_view text);
  // {n}, {n,} and {n,m}; otherwise consumes nothing and returns false. kInvalidArgument beyond
  // `limit`, or if m is less than n.
  Result<bool> TakeCounts(int* min, int* max, int limit);
  // kInvalidArgument unless `digits` digits follow. REQUIRES: at most 8.
  Result<char32_t> TakeHex(int digits);

  size_t line() const;  // from 1
  // kInvalidArgument "at character <n>: <why>"
  Status Error(const std::string& why) const;

 private:
  std::vector<char32_t> text_;
  size_t at_ = 0;
};

}  // namespace outrider::grammar
