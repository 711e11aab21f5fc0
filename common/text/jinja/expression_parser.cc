#include "common/text/jinja/expression_parser.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/text/jinja/builtins.h"
#include "common/text/jinja/messages.h"
#include "common/text/jinja/parser.h"

namespace outrider::jinja {
namespace {

using NodeKind = Expression::Kind;

ExpressionPtr New(NodeKind kind, int line) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  return expression;
}

// Sets the depth of a complete expression.
Result<ExpressionPtr> Done(ExpressionPtr expression) {
  int depth = 0;
  for (const ExpressionPtr& operand : expression->operands) {
    if (operand != nullptr) depth = std::max(depth, operand->depth);
  }
  for (const CallArgument& argument : expression->arguments) {
    depth = std::max(depth, argument.value->depth);
  }
  expression->depth = depth + 1;
  if (expression->depth > kMaxExpressionDepth) {
    return SyntaxError(expression->line, "an expression has more than " +
                                             std::to_string(kMaxExpressionDepth) +
                                             " levels of operators");
  }
  return expression;
}

template <class... Operands>
Result<ExpressionPtr> NewOf(NodeKind kind, int line, std::string name, Operands... operands) {
  ExpressionPtr expression = New(kind, line);
  expression->name = std::move(name);
  (expression->operands.push_back(std::move(operands)), ...);
  return Done(std::move(expression));
}

ExpressionPtr NewConstant(Value value, int line) {
  ExpressionPtr expression = New(NodeKind::kConstant, line);
  expression->constant = std::move(value);
  return expression;
}

}  // namespace

bool ExpressionParser::AtTupleEnd(Names ends) const {
  return Current().kind == Token::Kind::kPrintEnd || Current().kind == Token::Kind::kBlockEnd ||
         AtOperator(")") || IsNameOf(Current(), ends);
}

Result<ExpressionPtr> ExpressionParser::ParseTuple(Names ends, bool conditional, bool in_brackets) {
  ExpressionPtr tuple = New(NodeKind::kTuple, Current().line);
  bool is_tuple = false;
  while (!AtTupleEnd(ends)) {
    OUTRIDER_ASSIGN(tuple->operands.emplace_back(),
                    conditional ? ParseExpression() : ParseOrLevel());
    if (!TakeOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple || (in_brackets && tuple->operands.empty())) return Done(std::move(tuple));
  if (tuple->operands.empty()) return Unexpected("an expression");
  return std::move(tuple->operands.front());
}

Result<ExpressionPtr> ExpressionParser::ParseOrLevel() {
  const Level level(nesting());
  OUTRIDER_TRY(CheckNesting());
  return ParseOr();
}

Result<ExpressionPtr> ExpressionParser::ParseExpression() {
  const Level level(nesting());
  OUTRIDER_TRY(CheckNesting());
  const int line = Current().line;
  const size_t unknown = unknown_.size();
  OUTRIDER_ASSIGN(ExpressionPtr value, ParseOr());
  while (TakeName("if")) {
    OUTRIDER_ASSIGN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (TakeName("else")) {
      OUTRIDER_ASSIGN(otherwise, ParseExpression());
    }
    OUTRIDER_ASSIGN(value, NewOf(NodeKind::kConditional, line, "", std::move(condition),
                                 std::move(value), std::move(otherwise)));
    unknown_.resize(unknown);  // unknown names in here fail when they run
  }
  return value;
}

Result<ExpressionPtr> ExpressionParser::ParseOr() {
  const int line = Current().line;
  OUTRIDER_ASSIGN(ExpressionPtr left, ParseAnd());
  while (TakeName("or")) {
    OUTRIDER_ASSIGN(ExpressionPtr right, ParseAnd());
    OUTRIDER_ASSIGN(left, NewOf(NodeKind::kOr, line, "", std::move(left), std::move(right)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseAnd() {
  const int line = Current().line;
  OUTRIDER_ASSIGN(ExpressionPtr left, ParseNot());
  while (TakeName("and")) {
    OUTRIDER_ASSIGN(ExpressionPtr right, ParseNot());
    OUTRIDER_ASSIGN(left, NewOf(NodeKind::kAnd, line, "", std::move(left), std::move(right)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseNot() {
  const int line = Current().line;
  if (!TakeName("not")) return ParseCompare();
  const Level level(nesting());
  OUTRIDER_TRY(CheckNesting());
  OUTRIDER_ASSIGN(ExpressionPtr operand, ParseNot());
  return NewOf(NodeKind::kNot, line, "", std::move(operand));
}

std::string ExpressionParser::TakeComparison() {
  for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">="}) {
    if (TakeOperator(symbol)) return std::string(symbol);
  }
  if (TakeName("in")) return "in";
  if (!IsName(Current(), "not") || !IsName(Next(), "in")) return "";
  Take();
  Take();
  return "not in";
}

Result<ExpressionPtr> ExpressionParser::ParseCompare() {
  const int line = Current().line;
  OUTRIDER_ASSIGN(ExpressionPtr first, ParseSum());
  std::string comparison = TakeComparison();
  if (comparison.empty()) return first;
  ExpressionPtr compare = New(NodeKind::kCompare, line);
  compare->operands.push_back(std::move(first));
  for (; !comparison.empty(); comparison = TakeComparison()) {
    compare->comparisons.push_back(std::move(comparison));
    OUTRIDER_ASSIGN(compare->operands.emplace_back(), ParseSum());
  }
  return Done(std::move(compare));
}

Result<ExpressionPtr> ExpressionParser::ParseBinary(Names symbols, Operand next) {
  const int line = Current().line;
  OUTRIDER_ASSIGN(ExpressionPtr left, (this->*next)());
  for (;;) {
    const Token& token = Current();
    const bool matches = token.kind == Token::Kind::kOperator &&
                         std::find(symbols.begin(), symbols.end(), token.text) != symbols.end();
    if (!matches) return left;
    std::string symbol = Take().text;
    OUTRIDER_ASSIGN(ExpressionPtr right, (this->*next)());
    OUTRIDER_ASSIGN(
        left, NewOf(NodeKind::kBinary, line, std::move(symbol), std::move(left), std::move(right)));
  }
}

Result<ExpressionPtr> ExpressionParser::ParseSum() {
  return ParseBinary({"+", "-"}, &ExpressionParser::ParseConcatenation);
}

Result<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  const int line = Current().line;
  OUTRIDER_ASSIGN(ExpressionPtr first, ParseProduct());
  if (!AtOperator("~")) return first;
  ExpressionPtr text = New(NodeKind::kConcatenate, line);
  text->operands.push_back(std::move(first));
  while (TakeOperator("~")) {
    OUTRIDER_ASSIGN(text->operands.emplace_back(), ParseProduct());
  }
  return Done(std::move(text));
}

Result<ExpressionPtr> ExpressionParser::ParseProduct() {
  return ParseBinary({"*", "/", "//", "%"}, &ExpressionParser::ParsePower);
}

Result<ExpressionPtr> ExpressionParser::ParsePower() {
  return ParseBinary({"**"}, &ExpressionParser::ParseFilteredUnary);
}

Result<ExpressionPtr> ExpressionParser::ParseFilteredUnary() {
  return ParseUnary(/*with_filters=*/true);
}

Result<ExpressionPtr> ExpressionParser::ParseUnary(bool with_filters) {
  const Level level(nesting());
  OUTRIDER_TRY(CheckNesting());
  const int line = Current().line;
  ExpressionPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    const NodeKind kind = Take().text == "-" ? NodeKind::kNegate : NodeKind::kPlus;
    OUTRIDER_ASSIGN(ExpressionPtr operand, ParseUnary(/*with_filters=*/false));
    OUTRIDER_ASSIGN(node, NewOf(kind, line, "", std::move(operand)));
  } else {
    OUTRIDER_ASSIGN(node, ParsePrimary());
  }
  OUTRIDER_ASSIGN(node, ParsePostfix(std::move(node)));
  if (!with_filters) return node;
  for (;;) {
    if (AtOperator("|")) {
      OUTRIDER_ASSIGN(node, ParseFilters(std::move(node)));
    } else if (IsName(Current(), "is")) {
      OUTRIDER_ASSIGN(node, ParseTest(std::move(node)));
    } else if (AtOperator("(")) {
      OUTRIDER_ASSIGN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseName() {
  const Token& token = Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return NewConstant(Value::Bool(true), token.line);
  if (name == "false" || name == "False") return NewConstant(Value::Bool(false), token.line);
  if (name == "none" || name == "None") return NewConstant(Value(), token.line);
  for (MacroDefinition* macro : macros_) {
    if (name == "caller") macro->takes_caller = true;
    if (name == "kwargs") macro->takes_keywords = true;
    if (name == "varargs") macro->takes_positional = true;
  }
  loop_reads_ += name == "loop";
  ExpressionPtr expression = New(NodeKind::kName, token.line);
  expression->name = name;
  return expression;
}

Result<ExpressionPtr> ExpressionParser::ParsePrimary() {
  const Token& token = Current();
  switch (token.kind) {
    case Token::Kind::kName: return ParseName();
    case Token::Kind::kInteger: return NewConstant(Value::Int(Take().integer), token.line);
    case Token::Kind::kFloat: return NewConstant(Value::Float(Take().real), token.line);
    case Token::Kind::kString: {
      std::string text;
      while (Current().kind == Token::Kind::kString) text += Take().text;
      return NewConstant(Value::Text(std::move(text)), token.line);
    }
    default: break;
  }
  if (TakeOperator("(")) {
    OUTRIDER_ASSIGN(ExpressionPtr tuple, ParseTuple({}, true, /*in_brackets=*/true));
    OUTRIDER_TRY(ExpectOperator(")"));
    return tuple;
  }
  if (TakeOperator("[")) return ParseList(token.line);
  if (TakeOperator("{")) return ParseDict(token.line);
  return Unexpected("an expression");
}

Result<ExpressionPtr> ExpressionParser::ParseList(int line) {
  ExpressionPtr list = New(NodeKind::kList, line);
  while (!TakeOperator("]")) {
    if (!list->operands.empty()) {
      OUTRIDER_TRY(ExpectOperator(","));
      if (TakeOperator("]")) break;
    }
    OUTRIDER_ASSIGN(list->operands.emplace_back(), ParseExpression());
  }
  return Done(std::move(list));
}

Result<ExpressionPtr> ExpressionParser::ParseDict(int line) {
  ExpressionPtr dict = New(NodeKind::kDict, line);
  while (!TakeOperator("}")) {
    if (!dict->operands.empty()) {
      OUTRIDER_TRY(ExpectOperator(","));
      if (TakeOperator("}")) break;
    }
    OUTRIDER_ASSIGN(dict->operands.emplace_back(), ParseExpression());
    OUTRIDER_TRY(ExpectOperator(":"));
    OUTRIDER_ASSIGN(dict->operands.emplace_back(), ParseExpression());
  }
  return Done(std::move(dict));
}

Result<ExpressionPtr> ExpressionParser::ParsePostfix(ExpressionPtr node) {
  for (;;) {
    if (AtOperator(".")) {
      OUTRIDER_ASSIGN(node, ParseAttribute(std::move(node)));
    } else if (AtOperator("[")) {
      OUTRIDER_ASSIGN(node, ParseItem(std::move(node)));
    } else if (AtOperator("(")) {
      OUTRIDER_ASSIGN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseAttribute(ExpressionPtr node) {
  const int line = Take().line;
  if (Current().kind == Token::Kind::kInteger) {
    const int64_t index = Take().integer;
    return NewOf(NodeKind::kItem, line, "", std::move(node), NewConstant(Value::Int(index), line));
  }
  OUTRIDER_ASSIGN(std::string name, ExpectAnyName());
  return NewOf(NodeKind::kAttribute, line, std::move(name), std::move(node));
}

Result<ExpressionPtr> ExpressionParser::ParseItem(ExpressionPtr node) {
  const int line = Take().line;
  ExpressionPtr parts[3];
  bool is_slice = false;
  if (TakeOperator("]")) {  // x[] has an empty tuple
    return NewOf(NodeKind::kItem, line, "", std::move(node), New(NodeKind::kTuple, line));
  }
  if (!AtOperator(":")) {
    OUTRIDER_ASSIGN(parts[0], ParseExpression());
  }
  for (int i = 1; i < 3 && TakeOperator(":"); ++i) {
    is_slice = true;
    if (!AtOperator(":") && !AtOperator("]")) {
      OUTRIDER_ASSIGN(parts[i], ParseExpression());
    }
  }
  if (AtOperator(",")) {
    if (is_slice) return SyntaxError(line, "a slice among several subscripts is not supported");
    return ParseTupleItem(std::move(node), std::move(parts[0]), line);
  }
  OUTRIDER_TRY(ExpectOperator("]"));
  if (!is_slice) return NewOf(NodeKind::kItem, line, "", std::move(node), std::move(parts[0]));
  return NewOf(NodeKind::kSlice, line, "", std::move(node), std::move(parts[0]),
               std::move(parts[1]), std::move(parts[2]));
}

Result<ExpressionPtr> ExpressionParser::ParseTupleItem(ExpressionPtr node, ExpressionPtr first,
                                                       int line) {
  ExpressionPtr tuple = New(NodeKind::kTuple, line);
  tuple->operands.push_back(std::move(first));
  while (TakeOperator(",")) {
    OUTRIDER_ASSIGN(tuple->operands.emplace_back(), ParseExpression());
  }
  OUTRIDER_TRY(ExpectOperator("]"));
  OUTRIDER_ASSIGN(tuple, Done(std::move(tuple)));
  return NewOf(NodeKind::kItem, line, "", std::move(node), std::move(tuple));
}

Result<ExpressionPtr> ExpressionParser::ParseCall(ExpressionPtr callee) {
  ExpressionPtr call = New(NodeKind::kCall, Current().line);
  call->operands.push_back(std::move(callee));
  OUTRIDER_TRY(ParseArguments(&call->arguments));
  return Done(std::move(call));
}

Status ExpressionParser::ParseArguments(std::vector<CallArgument>* arguments) {
  const int line = Current().line;
  OUTRIDER_TRY(ExpectOperator("("));
  using enum CallArgument::Kind;
  std::map<CallArgument::Kind, bool> has;
  while (!TakeOperator(")")) {
    if (!arguments->empty()) {
      OUTRIDER_TRY(ExpectOperator(","));
      if (TakeOperator(")")) break;
    }
    CallArgument argument;
    if (TakeOperator("*")) {
      argument.kind = kSequence;
    } else if (TakeOperator("**")) {
      argument.kind = kMapping;
    } else if (Current().kind == Token::Kind::kName && IsOperator(Next(), "=")) {
      argument.kind = kKeyword;
      argument.name = Take().text;
      Take();
    }
    // At most one * and one **; positional ones come first, ** last.
    const bool out_of_order = has[kMapping] || (argument.kind == kSequence && has[kSequence]) ||
                              (argument.kind == kPositional && (has[kSequence] || has[kKeyword]));
    if (out_of_order) return SyntaxError(line, "the arguments of a call are in the wrong order");
    has[argument.kind] = true;
    OUTRIDER_ASSIGN(argument.value, ParseExpression());
    arguments->push_back(std::move(argument));
  }
  return Status();
}

Result<std::string> ExpressionParser::ParseDottedName() {
  OUTRIDER_ASSIGN(std::string name, ExpectAnyName());
  while (TakeOperator(".")) {
    OUTRIDER_ASSIGN(const std::string part, ExpectAnyName());
    name += "." + part;
  }
  return name;
}

void ExpressionParser::NoteUnknown(int line, const std::string& kind, const std::string& name) {
  if (scope_.conditional) return;  // fails when it runs, as in Jinja
  unknown_.push_back(SyntaxError(line, kind + " " + Quoted(name) + " is not known").message());
}

Result<ExpressionPtr> ExpressionParser::ParseOneFilter(ExpressionPtr node) {
  ExpressionPtr filter = New(NodeKind::kFilter, Current().line);
  OUTRIDER_ASSIGN(filter->name, ParseDottedName());
  filter->builtin = FindFilter(filter->name);
  if (filter->builtin == nullptr) NoteUnknown(filter->line, "filter", filter->name);
  filter->operands.push_back(std::move(node));
  if (AtOperator("(")) OUTRIDER_TRY(ParseArguments(&filter->arguments));
  return Done(std::move(filter));
}

Result<ExpressionPtr> ExpressionParser::ParseFilters(ExpressionPtr node) {
  while (TakeOperator("|")) {
    OUTRIDER_ASSIGN(node, ParseOneFilter(std::move(node)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr node) {
  const int line = Take().line;
  const bool negated = TakeName("not");
  ExpressionPtr test = New(NodeKind::kTest, line);
  OUTRIDER_ASSIGN(test->name, ParseDottedName());
  test->builtin = FindTest(test->name);
  if (test->builtin == nullptr) NoteUnknown(line, "test", test->name);
  test->operands.push_back(std::move(node));
  const Token& token = Current();
  const bool is_value = token.kind == Token::Kind::kName || token.kind == Token::Kind::kString ||
                        token.kind == Token::Kind::kInteger || token.kind == Token::Kind::kFloat ||
                        AtOperator("[") || AtOperator("{");
  if (AtOperator("(")) {
    OUTRIDER_TRY(ParseArguments(&test->arguments));
  } else if (is_value && !IsNameOf(token, {"else", "or", "and"})) {
    if (IsName(token, "is")) return SyntaxError(token.line, "tests cannot be chained with 'is'");
    CallArgument argument;
    OUTRIDER_ASSIGN(argument.value, ParsePrimary());
    OUTRIDER_ASSIGN(argument.value, ParsePostfix(std::move(argument.value)));
    test->arguments.push_back(std::move(argument));
  }
  OUTRIDER_ASSIGN(test, Done(std::move(test)));
  if (!negated) return test;
  return NewOf(NodeKind::kNot, line, "", std::move(test));
}

}  // namespace outrider::jinja
