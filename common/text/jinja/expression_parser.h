// Parses expressions by recursive descent. The parser of statements derives from it.
//
// Owner and thread: one parser.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/token_reader.h"

namespace outrider::jinja {

class ExpressionParser : public TokenReader {
 public:
  using TokenReader::TokenReader;

 protected:
  // Expressions separated by commas form a tuple. `ends`: names that end it. `conditional`: whether
  // `a if b` may be one of its expressions. `in_brackets`: "()" is a tuple, too.
  Result<ExpressionPtr> ParseTuple(Names ends, bool conditional = true, bool in_brackets = false);
  Result<ExpressionPtr> ParseExpression();
  // filter | filter ..., after the first "|"; `node` is nullptr for the text of a block.
  Result<ExpressionPtr> ParseOneFilter(ExpressionPtr node);
  // | filter | filter ...
  Result<ExpressionPtr> ParseFilters(ExpressionPtr node);

  // The context of an expression.
  struct Scope {
    int loops = 0;             // those that `break` can leave
    bool conditional = false;  // within an `if`: unknown filters and tests only fail when they run
  };
  const Scope& scope() const { return scope_; }
  Scope Enter(Scope inner) { return std::exchange(scope_, inner); }  // returns the previous one
  // Macros record whether their bodies read `caller`, `kwargs` and `varargs`. The innermost is
  // last.
  void EnterMacro(MacroDefinition* macro) { macros_.push_back(macro); }
  void LeaveMacro() { macros_.pop_back(); }

  // How often the name `loop` was read so far.
  int loop_reads() const { return loop_reads_; }
  // Unknown filters and tests, outside of parts that may never run: "line <n>: ...".
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  using Operand = Result<ExpressionPtr> (ExpressionParser::*)();

  bool AtTupleEnd(Names ends) const;
  Result<ExpressionPtr> ParseOrLevel();
  Result<ExpressionPtr> ParseOr();
  Result<ExpressionPtr> ParseAnd();
  Result<ExpressionPtr> ParseNot();
  std::string TakeComparison();  // "" if no comparison follows
  Result<ExpressionPtr> ParseCompare();
  // Operands parsed by `next`, separated by operators of `symbols`, from left to right.
  Result<ExpressionPtr> ParseBinary(Names symbols, Operand next);
  Result<ExpressionPtr> ParseSum();
  Result<ExpressionPtr> ParseConcatenation();
  Result<ExpressionPtr> ParseProduct();
  Result<ExpressionPtr> ParsePower();
  Result<ExpressionPtr> ParseFilteredUnary();
  Result<ExpressionPtr> ParseUnary(bool with_filters);
  Result<ExpressionPtr> ParseName();
  Result<ExpressionPtr> ParsePrimary();
  Result<ExpressionPtr> ParseList(int line);
  Result<ExpressionPtr> ParseDict(int line);
  Result<ExpressionPtr> ParsePostfix(ExpressionPtr node);
  Result<ExpressionPtr> ParseAttribute(ExpressionPtr node);
  Result<ExpressionPtr> ParseItem(ExpressionPtr node);
  // x[a, b]: the subscript is a tuple.
  Result<ExpressionPtr> ParseTupleItem(ExpressionPtr node, ExpressionPtr first, int line);
  Result<ExpressionPtr> ParseCall(ExpressionPtr callee);
  Status ParseArguments(std::vector<CallArgument>* arguments);
  Result<ExpressionPtr> ParseTest(ExpressionPtr node);
  Result<std::string> ParseDottedName();
  void NoteUnknown(int line, const std::string& kind, const std::string& name);

  Scope scope_;
  int loop_reads_ = 0;
  std::vector<MacroDefinition*> macros_;
  std::vector<std::string> unknown_;
};

}  // namespace outrider::jinja
