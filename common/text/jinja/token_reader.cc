#include "common/text/jinja/token_reader.h"

#include <algorithm>

#include "common/text/jinja/messages.h"
#include "common/text/jinja/parser.h"

namespace outrider::jinja {
namespace {

std::string Described(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kText: return "text";
    case Token::Kind::kPrintBegin: return "'{{'";
    case Token::Kind::kPrintEnd: return "'}}'";
    case Token::Kind::kBlockBegin: return "'{%'";
    case Token::Kind::kBlockEnd: return "'%}'";
    case Token::Kind::kString: return "the string " + Quoted(token.text);
    case Token::Kind::kEnd: return "the end of the template";
    default: return Quoted(token.text);
  }
}

}  // namespace

bool IsConstantName(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

const Token& TokenReader::Take() {
  const Token& token = tokens_[at_];
  at_ = AfterCurrent();
  return token;
}

bool TokenReader::IsName(const Token& token, std::string_view name) {
  return token.kind == Token::Kind::kName && token.text == name;
}

bool TokenReader::IsNameOf(const Token& token, Names names) {
  return token.kind == Token::Kind::kName &&
         std::find(names.begin(), names.end(), token.text) != names.end();
}

bool TokenReader::IsOperator(const Token& token, std::string_view symbol) {
  return token.kind == Token::Kind::kOperator && token.text == symbol;
}

bool TokenReader::TakeName(std::string_view name) {
  if (!IsName(Current(), name)) return false;
  Take();
  return true;
}

bool TokenReader::TakeOperator(std::string_view symbol) {
  if (!AtOperator(symbol)) return false;
  Take();
  return true;
}

Status TokenReader::Expect(Token::Kind kind, const std::string& wanted) {
  if (Current().kind != kind) return Unexpected(wanted);
  Take();
  return Status();
}

Status TokenReader::ExpectOperator(std::string_view symbol) {
  return TakeOperator(symbol) ? Status() : Unexpected(Quoted(symbol));
}

Status TokenReader::ExpectName(std::string_view name) {
  return TakeName(name) ? Status() : Unexpected(Quoted(name));
}

Result<std::string> TokenReader::ExpectAnyName() {
  if (Current().kind != Token::Kind::kName) return Unexpected("a name");
  return Take().text;
}

Status TokenReader::Unexpected(const std::string& wanted) const {
  return SyntaxError(Current().line, "unexpected " + Described(Current()) + ", expected " + wanted);
}

Status TokenReader::CheckNesting() const {
  if (nesting_ <= kMaxNesting) return Status();
  return SyntaxError(Current().line, "statements and brackets are nested deeper than " +
                                         std::to_string(kMaxNesting) + " levels");
}

}  // namespace outrider::jinja
