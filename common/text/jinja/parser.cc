#include "common/text/jinja/parser.h"

#include <utility>

#include "common/base/printable.h"
#include "common/text/jinja/expression_parser.h"
#include "common/text/jinja/messages.h"
#include "common/text/jinja/name_scopes.h"

namespace outrider::jinja {
namespace {

// Parses statements and assignment targets.
class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Result<Program> Run() {
    OUTRIDER_ASSIGN(Body body, ParseBody({}, ""));
    if (!unknown().empty()) return InvalidArgument(unknown().front());
    Program program{.body = std::move(body)};
    program.unset = FindUnsetNames(&program.body);
    return program;
  }

 private:
  // A body with a scope of its own.
  Result<Body> ParseScopedBody(Names ends, const std::string& tag, Scope inner) {
    const Scope outer = Enter(inner);
    auto body = ParseBody(ends, tag);
    Enter(outer);
    return body;
  }

  // --- statements ---

  // Parses up to `{% end`, which is not consumed, for one of `ends`; without `ends` to the
  // template's end.
  Result<Body> ParseBody(Names ends, const std::string& tag) {
    const Level level(nesting());
    OUTRIDER_TRY(CheckNesting());
    const int begin = LineBefore();
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
      if (scope().loops == 0) {
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
    const Scope outer = Enter({.loops = scope().loops, .conditional = true});
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
    Enter(outer);
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
      const Scope outer = Enter({.loops = scope().loops});
      auto condition = ParseExpression();
      Enter(outer);
      OUTRIDER_ASSIGN(loop.condition, std::move(condition));
    }
    loop.recursive = TakeName("recursive");
    OUTRIDER_TRY(EndTag());
    const int reads_before = loop_reads();
    const int outer_loops = loop.recursive ? 0 : scope().loops;
    OUTRIDER_ASSIGN(loop.body,
                    ParseScopedBody({"endfor", "else"}, "for", {.loops = outer_loops + 1}));
    loop.reads_loop = loop.recursive || loop_reads() > reads_before;
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
      OUTRIDER_ASSIGN(set.body, ParseScopedBody({"endset"}, "set", {.loops = scope().loops}));
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
    OUTRIDER_ASSIGN(with.body, ParseScopedBody({"endwith"}, "with", {.loops = scope().loops}));
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

  // Calls `parse` in the scope of `macro`, whose special variables it may read.
  template <class Parse>
  Status ParseWithin(MacroDefinition* macro, Parse parse) {
    EnterMacro(macro);
    const Scope outer = Enter({});
    Status status = parse();
    Enter(outer);
    LeaveMacro();
    return status;
  }

  Status ParseMacroBody(std::string_view end, const std::string& tag, MacroDefinition* macro) {
    OUTRIDER_TRY(EndTag());
    OUTRIDER_TRY(ParseWithin(macro, [&]() -> Status {
      OUTRIDER_ASSIGN(macro->body, ParseBody({end}, tag));
      return Status();
    }));
    Take();
    for (const Parameter& parameter : macro->parameters) {  // a parameter is not a special variable
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
    if (statement.expression->kind != Expression::Kind::kCall) {
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
                    ParseScopedBody({"endfilter"}, "filter", {.loops = scope().loops}));
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

  // Marks for training which tokens the model generated; otherwise a scope like a call block.
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

  // `ends`: names that end a tuple. `attributes`: allows assignment to those of a namespace.
  Result<Target> ParseTarget(Names ends, bool attributes) {
    const Level level(nesting());
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
    if (attributes && Current().kind == Token::Kind::kName && IsOperator(Next(), ".") &&
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

  int open_fors_ = 0;
};

}  // namespace

Result<Program> ParseTemplate(std::string_view source) {
  OUTRIDER_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace outrider::jinja
