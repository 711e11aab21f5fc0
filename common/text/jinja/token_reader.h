// Reads a template's tokens one after another; the base of the parsers.
//
// Owner and thread: one parser.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/level.h"
#include "common/text/jinja/lexer.h"

namespace outrider::jinja {

// true, True, false, False, none, None
bool IsConstantName(std::string_view name);

class TokenReader {
 public:
  using Names = std::initializer_list<std::string_view>;

  // The last token is a kEnd, as from Tokenize(); it is never consumed.
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& Current() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[AfterCurrent()]; }
  const Token& Take();
  // Line of the previous token; 1 at the beginning.
  int LineBefore() const { return at_ == 0 ? 1 : tokens_[at_ - 1].line; }

  static bool IsName(const Token& token, std::string_view name);
  static bool IsNameOf(const Token& token, Names names);
  static bool IsOperator(const Token& token, std::string_view symbol);
  bool AtOperator(std::string_view symbol) const { return IsOperator(Current(), symbol); }

  // Consumes the token if it is this one.
  bool TakeName(std::string_view name);
  bool TakeOperator(std::string_view symbol);

  // Consumes the token, or fails if it is another.
  Status Expect(Token::Kind kind, const std::string& wanted);
  Status ExpectOperator(std::string_view symbol);
  Status ExpectName(std::string_view name);
  Result<std::string> ExpectAnyName();
  Status Unexpected(const std::string& wanted) const;

  // For a Level at each step of the parsers' recursion.
  int* nesting() { return &nesting_; }
  Status CheckNesting() const;

 private:
  size_t AfterCurrent() const { return at_ + 1 < tokens_.size() ? at_ + 1 : at_; }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace outrider::jinja
