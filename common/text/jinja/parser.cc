#include "common/text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "common/base/printable.h"
#include "common/text/jinja/builtins.h"
#include "common/text/jinja/level.h"
#include "common/text/jinja/lexer.h"
#include "common/text/jinja/name_scopes.h"

namespace outrider::jinja {
namespace {

using Kind = Expression::Kind;
using Names = std::initializer_list<std::string_view>;

std::string Quoted(std::string_view text) { return "'" + Printable(text, 60) + "'"; }

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

bool IsConstantName(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Program> Run() {
    OUTRIDER_ASSIGN(Body body, ParseBody({}, ""));
    if (!unknown_.empty()) return InvalidArgument(unknown_.front());
    Program program{.body = std::move(body)};
    program.unset = FindUnsetNames(&program.body);
    return program;
  }

 private:
  // --- tokens ---
  const Token& Current() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& Take() {
    const Token& token = tokens_[at_];
    at_ = std::min(at_ + 1, tokens_.size() - 1);
    return token;
  }
  static bool IsName(const Token& token, std::string_view name) {
    return token.kind == Token::Kind::kName && token.text == name;
  }
  static bool IsNameOf(const Token& token, Names names) {
    return token.kind == Token::Kind::kName &&
           std::find(names.begin(), names.end(), token.text) != names.end();
  }
  bool AtOperator(std::string_view symbol) const {
    return Current().kind == Token::Kind::kOperator && Current().text == symbol;
  }
  bool TakeName(std::string_view name) {
    if (!IsName(Current(), name)) return false;
    Take();
    return true;
  }
  bool TakeOperator(std::string_view symbol) {
    if (!AtOperator(symbol)) return false;
    Take();
    return true;
  }
  Status Unexpected(const std::string& wanted) const {
    return SyntaxError(Current().line,
                       "unexpected " + Described(Current()) + ", expected " + wanted);
  }
  Status Expect(Token::Kind kind, const std::string& wanted) {
    if (Current().kind != kind) return Unexpected(wanted);
    Take();
    return Status();
  }
  Status ExpectOperator(std::string_view symbol) {
    return TakeOperator(symbol) ? Status() : Unexpected(Quoted(symbol));
  }
  Status ExpectName(std::string_view name) {
    return TakeName(name) ? Status() : Unexpected(Quoted(name));
  }
  Result<std::string> ExpectAnyName() {
    if (Current().kind != Token::Kind::kName) return Unexpected("a name");
    return Take().text;
  }

  Status CheckNesting() const {
    if (nesting_ <= kMaxNesting) return Status();
    return SyntaxError(Current().line, "statements and brackets are nested deeper than " +
                                           std::to_string(kMaxNesting) + " levels");
  }

  // --- what surrounds a statement ---
  struct Scope {
    int loops = 0;             // that `break` can leave
    bool conditional = false;  // within an `if` of this scope: unknown filters fail when they run
  };
  // A body that becomes a scope of its own.
  Result<Body> ParseScopedBody(Names ends, const std::string& tag, Scope inner) {
    const Scope outer = std::exchange(scope_, inner);
    auto body = ParseBody(ends, tag);
    scope_ = outer;
    return body;
  }

  // --- statements ---

  // Up to `{% end`, which stays, for one of `ends`; to the template's end where there are none.
  Result<Body> ParseBody(Names ends, const std::string& tag) {
    const Level level(&nesting_);
    OUTRIDER_TRY(CheckNesting());
    const int begin = at_ == 0 ? 1 : tokens_[at_ - 1].line;
    Body body;
    for (;;) {
      const Token& token = Current();
      switch (token.kind) {
        case Token::Kind::kText: {
          Statement& text = Add(Statement::Kind::kText, &body);
          text.text = Value::Text(Take().text);
          break;
        }
        case Token::Kind::kPrintBegin: {
          Take();
          Statement print = Make(Statement::Kind::kPrint);
          OUTRIDER_ASSIGN(print.expression, ParseTuple({}));
          OUTRIDER_TRY(Expect(Token::Kind::kPrintEnd, "'}}'"));
          body.push_back(std::move(print));
          break;
        }
        case Token::Kind::kBlockBegin: {
          Take();
          if (IsNameOf(Current(), ends)) return body;
          OUTRIDER_TRY(ParseStatement(&body));
          OUTRIDER_TRY(Expect(Token::Kind::kBlockEnd, "'%}'"));
          break;
        }
        default: {
          if (ends.size() == 0) return body;
          return SyntaxError(begin, "'{% " + tag + " %}' is not closed");
        }
      }
    }
  }

  Statement Make(Statement::Kind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = Current().line;
    return statement;
  }
  Statement& Add(Statement::Kind kind, Body* body) const { return body->emplace_back(Make(kind)); }

  // The end of an opening tag; Jinja allows a colon before it.
  Status EndTag() {
    TakeOperator(":");
    return Expect(Token::Kind::kBlockEnd, "'%}'");
  }

  Status ParseStatement(Body* body) {
    const Token token = Current();
    if (token.kind != Token::Kind::kName) return Unexpected("the name of a statement");
    const std::string& tag = token.text;
    if (tag == "if") return ParseIf(body);
    if (tag == "for") return ParseFor(body);
    if (tag == "set") return ParseSet(body);
    if (tag == "with") return ParseWith(body);
    if (tag == "macro") return ParseMacro(body);
    if (tag == "call") return ParseCallBlock(body);
    if (tag == "filter") return ParseFilterBlock(body);
    if (tag == "print") return ParsePrint(body);
    if (tag == "generation") return ParseGeneration(body);
    if (tag == "break" || tag == "continue") {
      if (scope_.loops == 0) {
        return SyntaxError(token.line, "'{% " + tag + " %}' is outside of a loop");
      }
      Add(tag == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue, body);
      Take();
      return Status();
    }
    return SyntaxError(token.line,
                       "'{% " + Printable(tag, 60) + " %}' is not supported, or out of place");
  }

  Status ParseIf(Body* body) {
    Statement statement = Make(Statement::Kind::kIf);
    const bool outer = std::exchange(scope_.conditional, true);
    Take();
    for (bool more = true; more;) {
      Branch branch;
      OUTRIDER_ASSIGN(branch.condition, ParseTuple({}, /*conditional=*/false));
      OUTRIDER_TRY(EndTag());
      OUTRIDER_ASSIGN(branch.body, ParseBody({"elif", "else", "endif"}, "if"));
      statement.branches.push_back(std::move(branch));
      const std::string end = Take().text;
      more = end == "elif";
      if (end != "else") continue;
      OUTRIDER_TRY(EndTag());
      Branch last;
      OUTRIDER_ASSIGN(last.body, ParseBody({"endif"}, "if"));
      Take();
      statement.branches.push_back(std::move(last));
    }
    scope_.conditional = outer;
    body->push_back(std::move(statement));
    return Status();
  }

  Status ParseFor(Body* body) {
    Statement loop = Make(Statement::Kind::kFor);
    Take();
    const Level in_loop(&open_fors_);
    OUTRIDER_ASSIGN(loop.target, ParseTarget({"in"}, /*attributes=*/false));
    OUTRIDER_TRY(ExpectName("in"));
    OUTRIDER_ASSIGN(loop.expression, ParseTuple({"recursive"}, /*conditional=*/false));
    if (TakeName("if")) {
      const Scope outer = std::exchange(scope_, {.loops = scope_.loops});
      auto condition = ParseExpression();
      scope_ = outer;
      OUTRIDER_ASSIGN(loop.condition, std::move(condition));
    }
    loop.recursive = TakeName("recursive");
    OUTRIDER_TRY(EndTag());
    const int reads_before = loop_reads_;
    const int outer_loops = loop.recursive ? 0 : scope_.loops;
    OUTRIDER_ASSIGN(loop.body,
                    ParseScopedBody({"endfor", "else"}, "for", {.loops = outer_loops + 1}));
    loop.reads_loop = loop.recursive || loop_reads_ > reads_before;
    if (Take().text == "else") {
      OUTRIDER_TRY(EndTag());
      OUTRIDER_ASSIGN(loop.otherwise, ParseScopedBody({"endfor"}, "for", {.loops = outer_loops}));
      Take();
    }
    body->push_back(std::move(loop));
    return Status();
  }

  Status ParseSet(Body* body) {
    Statement set = Make(Statement::Kind::kSet);
    Take();
    OUTRIDER_ASSIGN(set.target, ParseTarget({}, /*attributes=*/true));
    if (TakeOperator("=")) {
      OUTRIDER_ASSIGN(set.expression, ParseTuple({}));
    } else {
      set.kind = Statement::Kind::kSetBlock;
      if (AtOperator("|")) {
        OUTRIDER_ASSIGN(set.filter, ParseFilters(nullptr));
      }
      OUTRIDER_TRY(EndTag());
      OUTRIDER_ASSIGN(set.body, ParseScopedBody({"endset"}, "set", {.loops = scope_.loops}));
      Take();
    }
    body->push_back(std::move(set));
    return Status();
  }

  Status ParseWith(Body* body) {
    Statement with = Make(Statement::Kind::kWith);
    Take();
    while (Current().kind != Token::Kind::kBlockEnd && !AtOperator(":")) {
      if (!with.assignments.empty()) OUTRIDER_TRY(ExpectOperator(","));
      OUTRIDER_ASSIGN(Target target, ParseTarget({}, /*attributes=*/false));
      OUTRIDER_TRY(ExpectOperator("="));
      OUTRIDER_ASSIGN(ExpressionPtr value, ParseExpression());
      with.assignments.emplace_back(std::move(target), std::move(value));
    }
    OUTRIDER_TRY(EndTag());
    OUTRIDER_ASSIGN(with.body, ParseScopedBody({"endwith"}, "with", {.loops = scope_.loops}));
    Take();
    body->push_back(std::move(with));
    return Status();
  }

  Status ParseSignature(MacroDefinition* macro) {
    OUTRIDER_TRY(ExpectOperator("("));
    bool defaults = false;
    while (!AtOperator(")")) {
      if (!macro->parameters.empty()) OUTRIDER_TRY(ExpectOperator(","));
      Parameter parameter;
      const int line = Current().line;
      OUTRIDER_ASSIGN(parameter.name, ParseTargetName());
      if (TakeOperator("=")) {
        OUTRIDER_ASSIGN(parameter.default_value, ParseExpression());
        defaults = true;
      } else if (defaults) {
        return SyntaxError(line, "parameter " + Quoted(parameter.name) +
                                     " has no default, and the one before it has");
      }
      macro->parameters.push_back(std::move(parameter));
    }
    Take();
    return Status();
  }

  // Runs `parse` in the scope of `macro`, whose special variables it may read.
  template <class Parse>
  Status ParseWithin(MacroDefinition* macro, Parse parse) {
    macro_stack_.push_back(macro);
    const Scope outer = std::exchange(scope_, {});
    Status status = parse();
    scope_ = outer;
    macro_stack_.pop_back();
    return status;
  }

  Status ParseMacroBody(std::string_view end, const std::string& tag, MacroDefinition* macro) {
    OUTRIDER_TRY(EndTag());
    OUTRIDER_TRY(ParseWithin(macro, [&]() -> Status {
      OUTRIDER_ASSIGN(macro->body, ParseBody({end}, tag));
      return Status();
    }));
    Take();
    for (const Parameter& parameter : macro->parameters) {  // a parameter is no special variable
      if (parameter.name == "caller") macro->takes_caller = false;
      if (parameter.name == "kwargs") macro->takes_keywords = false;
      if (parameter.name == "varargs") macro->takes_positional = false;
    }
    return Status();
  }

  Status ParseMacro(Body* body) {
    Statement statement = Make(Statement::Kind::kMacro);
    Take();
    statement.macro = std::make_unique<MacroDefinition>();
    MacroDefinition* const macro = statement.macro.get();
    OUTRIDER_ASSIGN(macro->name, ParseTargetName());
    OUTRIDER_TRY(ParseWithin(macro, [&] { return ParseSignature(macro); }));
    OUTRIDER_TRY(ParseMacroBody("endmacro", "macro", macro));
    body->push_back(std::move(statement));
    return Status();
  }

  Status ParseCallBlock(Body* body) {
    Statement statement = Make(Statement::Kind::kCallBlock);
    Take();
    statement.macro = std::make_unique<MacroDefinition>();
    MacroDefinition* const macro = statement.macro.get();
    if (AtOperator("(")) OUTRIDER_TRY(ParseWithin(macro, [&] { return ParseSignature(macro); }));
    OUTRIDER_ASSIGN(statement.expression, ParseExpression());
    if (statement.expression->kind != Kind::kCall) {
      return SyntaxError(statement.line, "'{% call %}' needs a call");
    }
    OUTRIDER_TRY(ParseMacroBody("endcall", "call", macro));
    body->push_back(std::move(statement));
    return Status();
  }

  Status ParseFilterBlock(Body* body) {
    Statement statement = Make(Statement::Kind::kFilterBlock);
    Take();
    OUTRIDER_ASSIGN(statement.filter, ParseOneFilter(nullptr));
    if (AtOperator("|")) {
      OUTRIDER_ASSIGN(statement.filter, ParseFilters(std::move(statement.filter)));
    }
    OUTRIDER_TRY(EndTag());
    OUTRIDER_ASSIGN(statement.body,
                    ParseScopedBody({"endfilter"}, "filter", {.loops = scope_.loops}));
    Take();
    body->push_back(std::move(statement));
    return Status();
  }

  Status ParsePrint(Body* body) {
    Take();
    for (bool first = true; Current().kind != Token::Kind::kBlockEnd; first = false) {
      if (!first) OUTRIDER_TRY(ExpectOperator(","));
      Statement print = Make(Statement::Kind::kPrint);
      OUTRIDER_ASSIGN(print.expression, ParseExpression());
      body->push_back(std::move(print));
    }
    return Status();
  }

  // Marks in training which tokens the model made; a scope like a call block otherwise.
  Status ParseGeneration(Body* body) {
    Statement statement = Make(Statement::Kind::kScope);
    Take();
    OUTRIDER_TRY(EndTag());
    OUTRIDER_ASSIGN(statement.body, ParseScopedBody({"endgeneration"}, "generation", {}));
    Take();
    body->push_back(std::move(statement));
    return Status();
  }

  // --- targets ---

  Status CheckTargetName(const std::string& name, int line) const {
    if (IsConstantName(name)) return SyntaxError(line, "cannot assign to " + Quoted(name));
    if (name == "loop" && open_fors_ > 0) {
      return SyntaxError(line, "cannot assign to the special variable 'loop' in a loop");
    }
    return Status();
  }

  Result<std::string> ParseTargetName() {
    const int line = Current().line;
    OUTRIDER_ASSIGN(std::string name, ExpectAnyName());
    OUTRIDER_TRY(CheckTargetName(name, line));
    return name;
  }

  // `ends`: names that end a tuple. `attributes`: those of a namespace may be assigned to.
  Result<Target> ParseTarget(Names ends, bool attributes) {
    const Level level(&nesting_);
    OUTRIDER_TRY(CheckNesting());
    Target tuple{.kind = Target::Kind::kTuple, .line = Current().line};
    bool is_tuple = false;
    for (;;) {
      const Token& token = Current();
      const bool at_end =
          token.kind == Token::Kind::kBlockEnd || AtOperator(")") || IsNameOf(token, ends);
      if (at_end) break;
      OUTRIDER_ASSIGN(Target one, ParseOneTarget(attributes));
      tuple.targets.push_back(std::move(one));
      if (!TakeOperator(",")) break;
      is_tuple = true;
    }
    if (is_tuple) return tuple;
    if (tuple.targets.empty()) return Unexpected("a name to assign to");
    return std::move(tuple.targets.front());
  }

  Result<Target> ParseOneTarget(bool attributes) {
    Target target{.line = Current().line};
    if (TakeOperator("(")) {
      OUTRIDER_ASSIGN(target, ParseTarget({}, /*attributes=*/false));
      OUTRIDER_TRY(ExpectOperator(")"));
      return target;
    }
    if (attributes && Current().kind == Token::Kind::kName &&
        Next().kind == Token::Kind::kOperator && Next().text == "." &&
        !IsConstantName(Current().text)) {
      target.kind = Target::Kind::kAttribute;
      target.name = Take().text;
      Take();
      OUTRIDER_ASSIGN(target.attribute, ExpectAnyName());
      return target;
    }
    OUTRIDER_ASSIGN(target.name, ParseTargetName());
    return target;
  }

  // --- expressions ---

  ExpressionPtr New(Kind kind, int line) const {
    auto expression = std::make_unique<Expression>();
    expression->kind = kind;
    expression->line = line;
    return expression;
  }

  // Sets the depth of what is complete.
  Result<ExpressionPtr> Done(ExpressionPtr expression) const {
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
  Result<ExpressionPtr> NewOf(Kind kind, int line, std::string name, Operands... operands) const {
    ExpressionPtr expression = New(kind, line);
    expression->name = std::move(name);
    (expression->operands.push_back(std::move(operands)), ...);
    return Done(std::move(expression));
  }

  ExpressionPtr NewConstant(Value value, int line) const {
    ExpressionPtr expression = New(Kind::kConstant, line);
    expression->constant = std::move(value);
    return expression;
  }

  bool AtTupleEnd(Names ends) const {
    return Current().kind == Token::Kind::kPrintEnd || Current().kind == Token::Kind::kBlockEnd ||
           AtOperator(")") || IsNameOf(Current(), ends);
  }

  // Expressions with commas between them are a tuple. `ends`: names that end it. `conditional`:
  // whether `a if b` is one of its expressions. `in_brackets`: "()" is a tuple too.
  Result<ExpressionPtr> ParseTuple(Names ends, bool conditional = true, bool in_brackets = false) {
    ExpressionPtr tuple = New(Kind::kTuple, Current().line);
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

  Result<ExpressionPtr> ParseOrLevel() {
    const Level level(&nesting_);
    OUTRIDER_TRY(CheckNesting());
    return ParseOr();
  }

  Result<ExpressionPtr> ParseExpression() {
    const Level level(&nesting_);
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
      OUTRIDER_ASSIGN(value, NewOf(Kind::kConditional, line, "", std::move(condition),
                                   std::move(value), std::move(otherwise)));
      unknown_.resize(unknown);  // what is unknown in here fails when it runs
    }
    return value;
  }

  Result<ExpressionPtr> ParseOr() {
    const int line = Current().line;
    OUTRIDER_ASSIGN(ExpressionPtr left, ParseAnd());
    while (TakeName("or")) {
      OUTRIDER_ASSIGN(ExpressionPtr right, ParseAnd());
      OUTRIDER_ASSIGN(left, NewOf(Kind::kOr, line, "", std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExpressionPtr> ParseAnd() {
    const int line = Current().line;
    OUTRIDER_ASSIGN(ExpressionPtr left, ParseNot());
    while (TakeName("and")) {
      OUTRIDER_ASSIGN(ExpressionPtr right, ParseNot());
      OUTRIDER_ASSIGN(left, NewOf(Kind::kAnd, line, "", std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExpressionPtr> ParseNot() {
    const int line = Current().line;
    if (!TakeName("not")) return ParseCompare();
    const Level level(&nesting_);
    OUTRIDER_TRY(CheckNesting());
    OUTRIDER_ASSIGN(ExpressionPtr operand, ParseNot());
    return NewOf(Kind::kNot, line, "", std::move(operand));
  }

  // "" where no comparison follows.
  std::string TakeComparison() {
    for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">="}) {
      if (TakeOperator(symbol)) return std::string(symbol);
    }
    if (TakeName("in")) return "in";
    if (!IsName(Current(), "not") || !IsName(Next(), "in")) return "";
    Take();
    Take();
    return "not in";
  }

  Result<ExpressionPtr> ParseCompare() {
    const int line = Current().line;
    OUTRIDER_ASSIGN(ExpressionPtr first, ParseSum());
    std::string comparison = TakeComparison();
    if (comparison.empty()) return first;
    ExpressionPtr compare = New(Kind::kCompare, line);
    compare->operands.push_back(std::move(first));
    for (; !comparison.empty(); comparison = TakeComparison()) {
      compare->comparisons.push_back(std::move(comparison));
      OUTRIDER_ASSIGN(compare->operands.emplace_back(), ParseSum());
    }
    return Done(std::move(compare));
  }

  using Level2 = Result<ExpressionPtr> (Parser::*)();

  // Operands of `next`, with operators among `symbols` between them, from left to right.
  Result<ExpressionPtr> ParseBinary(Names symbols, Level2 next) {
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
          left, NewOf(Kind::kBinary, line, std::move(symbol), std::move(left), std::move(right)));
    }
  }

  Result<ExpressionPtr> ParseSum() { return ParseBinary({"+", "-"}, &Parser::ParseConcatenation); }

  Result<ExpressionPtr> ParseConcatenation() {
    const int line = Current().line;
    OUTRIDER_ASSIGN(ExpressionPtr first, ParseProduct());
    if (!AtOperator("~")) return first;
    ExpressionPtr text = New(Kind::kConcatenate, line);
    text->operands.push_back(std::move(first));
    while (TakeOperator("~")) {
      OUTRIDER_ASSIGN(text->operands.emplace_back(), ParseProduct());
    }
    return Done(std::move(text));
  }

  Result<ExpressionPtr> ParseProduct() {
    return ParseBinary({"*", "/", "//", "%"}, &Parser::ParsePower);
  }
  Result<ExpressionPtr> ParsePower() { return ParseBinary({"**"}, &Parser::ParseFilteredUnary); }
  Result<ExpressionPtr> ParseFilteredUnary() { return ParseUnary(/*with_filters=*/true); }

  Result<ExpressionPtr> ParseUnary(bool with_filters) {
    const Level level(&nesting_);
    OUTRIDER_TRY(CheckNesting());
    const int line = Current().line;
    ExpressionPtr node;
    if (AtOperator("-") || AtOperator("+")) {
      const Kind kind = Take().text == "-" ? Kind::kNegate : Kind::kPlus;
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

  Result<ExpressionPtr> ParseName() {
    const Token& token = Take();
    const std::string& name = token.text;
    if (name == "true" || name == "True") return NewConstant(Value::Bool(true), token.line);
    if (name == "false" || name == "False") return NewConstant(Value::Bool(false), token.line);
    if (name == "none" || name == "None") return NewConstant(Value(), token.line);
    for (MacroDefinition* macro : macro_stack_) {
      if (name == "caller") macro->takes_caller = true;
      if (name == "kwargs") macro->takes_keywords = true;
      if (name == "varargs") macro->takes_positional = true;
    }
    loop_reads_ += name == "loop";
    ExpressionPtr expression = New(Kind::kName, token.line);
    expression->name = name;
    return expression;
  }

  Result<ExpressionPtr> ParsePrimary() {
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

  Result<ExpressionPtr> ParseList(int line) {
    ExpressionPtr list = New(Kind::kList, line);
    while (!TakeOperator("]")) {
      if (!list->operands.empty()) {
        OUTRIDER_TRY(ExpectOperator(","));
        if (TakeOperator("]")) break;
      }
      OUTRIDER_ASSIGN(list->operands.emplace_back(), ParseExpression());
    }
    return Done(std::move(list));
  }

  Result<ExpressionPtr> ParseDict(int line) {
    ExpressionPtr dict = New(Kind::kDict, line);
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

  Result<ExpressionPtr> ParsePostfix(ExpressionPtr node) {
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

  Result<ExpressionPtr> ParseAttribute(ExpressionPtr node) {
    const int line = Take().line;
    if (Current().kind == Token::Kind::kInteger) {
      const int64_t index = Take().integer;
      return NewOf(Kind::kItem, line, "", std::move(node), NewConstant(Value::Int(index), line));
    }
    OUTRIDER_ASSIGN(std::string name, ExpectAnyName());
    return NewOf(Kind::kAttribute, line, std::move(name), std::move(node));
  }

  Result<ExpressionPtr> ParseItem(ExpressionPtr node) {
    const int line = Take().line;
    ExpressionPtr parts[3];
    bool is_slice = false;
    if (TakeOperator("]")) {  // x[]: an empty tuple
      return NewOf(Kind::kItem, line, "", std::move(node), New(Kind::kTuple, line));
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
    if (!is_slice) return NewOf(Kind::kItem, line, "", std::move(node), std::move(parts[0]));
    return NewOf(Kind::kSlice, line, "", std::move(node), std::move(parts[0]), std::move(parts[1]),
                 std::move(parts[2]));
  }

  // x[a, b]: the subscript is a tuple.
  Result<ExpressionPtr> ParseTupleItem(ExpressionPtr node, ExpressionPtr first, int line) {
    ExpressionPtr tuple = New(Kind::kTuple, line);
    tuple->operands.push_back(std::move(first));
    while (TakeOperator(",")) {
      OUTRIDER_ASSIGN(tuple->operands.emplace_back(), ParseExpression());
    }
    OUTRIDER_TRY(ExpectOperator("]"));
    OUTRIDER_ASSIGN(tuple, Done(std::move(tuple)));
    return NewOf(Kind::kItem, line, "", std::move(node), std::move(tuple));
  }

  Result<ExpressionPtr> ParseCall(ExpressionPtr callee) {
    ExpressionPtr call = New(Kind::kCall, Current().line);
    call->operands.push_back(std::move(callee));
    OUTRIDER_TRY(ParseArguments(&call->arguments));
    return Done(std::move(call));
  }

  Status ParseArguments(std::vector<CallArgument>* arguments) {
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
      } else if (Current().kind == Token::Kind::kName && Next().kind == Token::Kind::kOperator &&
                 Next().text == "=") {
        argument.kind = kKeyword;
        argument.name = Take().text;
        Take();
      }
      // Of each of * and ** one at most, positional ones first, ** last.
      const bool out_of_order = has[kMapping] || (argument.kind == kSequence && has[kSequence]) ||
                                (argument.kind == kPositional && (has[kSequence] || has[kKeyword]));
      if (out_of_order) return SyntaxError(line, "the arguments of a call are in the wrong order");
      has[argument.kind] = true;
      OUTRIDER_ASSIGN(argument.value, ParseExpression());
      arguments->push_back(std::move(argument));
    }
    return Status();
  }

  Result<std::string> ParseDottedName() {
    OUTRIDER_ASSIGN(std::string name, ExpectAnyName());
    while (TakeOperator(".")) {
      OUTRIDER_ASSIGN(const std::string part, ExpectAnyName());
      name += "." + part;
    }
    return name;
  }

  void NoteUnknown(int line, const std::string& kind, const std::string& name) {
    if (scope_.conditional) return;  // fails when it runs, as in Jinja
    unknown_.push_back(SyntaxError(line, kind + " " + Quoted(name) + " is not known").message());
  }

  Result<ExpressionPtr> ParseOneFilter(ExpressionPtr node) {
    ExpressionPtr filter = New(Kind::kFilter, Current().line);
    OUTRIDER_ASSIGN(filter->name, ParseDottedName());
    filter->builtin = FindFilter(filter->name);
    if (filter->builtin == nullptr) NoteUnknown(filter->line, "filter", filter->name);
    filter->operands.push_back(std::move(node));
    if (AtOperator("(")) OUTRIDER_TRY(ParseArguments(&filter->arguments));
    return Done(std::move(filter));
  }

  // `node` | filter | filter ..; nullptr for the text of a block.
  Result<ExpressionPtr> ParseFilters(ExpressionPtr node) {
    while (TakeOperator("|")) {
      OUTRIDER_ASSIGN(node, ParseOneFilter(std::move(node)));
    }
    return node;
  }

  Result<ExpressionPtr> ParseTest(ExpressionPtr node) {
    const int line = Take().line;
    const bool negated = TakeName("not");
    ExpressionPtr test = New(Kind::kTest, line);
    OUTRIDER_ASSIGN(test->name, ParseDottedName());
    test->builtin = FindTest(test->name);
    if (test->builtin == nullptr) NoteUnknown(line, "test", test->name);
    test->operands.push_back(std::move(node));
    const Token& token = Current();
    const bool is_value = token.kind == Token::Kind::kName || token.kind == Token::Kind::kString ||
                          token.kind == Token::Kind::kInteger ||
                          token.kind == Token::Kind::kFloat || AtOperator("[") || AtOperator("{");
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
    return NewOf(Kind::kNot, line, "", std::move(test));
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int open_fors_ = 0;
  int loop_reads_ = 0;  // of the name `loop`, so far
  Scope scope_;
  std::vector<MacroDefinition*> macro_stack_;  // open ones, the outermost first
  // Filters and tests that are not known, outside of what may never run: "line <n>: ...".
  std::vector<std::string> unknown_;
};

}  // namespace

Result<Program> ParseTemplate(std::string_view source) {
  OUTRIDER_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace outrider::jinja
