// A parsed template, made by the parser and read by the evaluator. It does not change in between.
//
// Thread: any for a const tree.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/text/jinja/value.h"

namespace outrider::jinja {

struct Builtin;
struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// An argument of a call, a filter or a test.
struct CallArgument {
  enum class Kind { kPositional, kKeyword, kSequence, kMapping };  // x, name=x, *x, **x
  Kind kind = Kind::kPositional;
  std::string name;  // kKeyword
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kTuple,        // operands
    kList,         // operands
    kDict,         // operands: keys and values in turn
    kAttribute,    // operands[0].name
    kItem,         // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1]:operands[2]:operands[3]], each nullptr if left out
    kCall,         // operands[0](arguments)
    kFilter,       // operands[0] | name(arguments); operands[0] is nullptr for a block's text
    kTest,         // operands[0] is name(arguments)
    kNot,          // these three: operands[0]
    kNegate,       //
    kPlus,         //
    kAnd,          // these two: operands[0] and operands[1]
    kOr,           //
    kBinary,       // operands[0] name operands[1], of + - * / // % **
    kConcatenate,  // operands joined as text
    kCompare,      // operands, with comparisons[i] between the i-th and the next
    kConditional,  // operands[1] if operands[0] else operands[2] (nullptr: undefined)
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  int depth = 1;  // nesting of expressions, including this one
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> comparisons;  // "==", "in", "not in" ..
  std::vector<CallArgument> arguments;
  const Builtin* builtin = nullptr;  // for kFilter and kTest; nullptr: unknown
};

// What `set`, `for` and `with` assign to.
struct Target {
  enum class Kind { kName, kAttribute, kTuple };
  Kind kind = Kind::kName;
  int line = 0;
  std::string name;             // kAttribute: of the namespace
  std::string attribute;        // kAttribute
  std::vector<Target> targets;  // kTuple
};

struct Statement;
using Body = std::vector<Statement>;

struct Parameter {
  std::string name;
  ExpressionPtr default_value;  // nullptr: none
};

// A macro or a call block.
struct MacroDefinition {
  std::string name;  // "" for a call block
  std::vector<Parameter> parameters;
  Body body;
  std::vector<std::string> unset;  // names that are undefined where the body begins
  // Whether the body reads the names `caller`, `kwargs` and `varargs`.
  bool takes_caller = false;
  bool takes_keywords = false;
  bool takes_positional = false;
};

struct Branch {
  ExpressionPtr condition;  // nullptr: else
  Body body;
};

struct Statement {
  enum class Kind {
    kText,         // text
    kPrint,        // expression
    kIf,           // branches
    kFor,          // target, expression, condition, body, otherwise
    kSet,          // target, expression
    kSetBlock,     // target, body, filter
    kWith,         // assignments, body
    kMacro,        // macro
    kCallBlock,    // macro (the block), expression (the call)
    kFilterBlock,  // filter, body
    kScope,        // body
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  Value text;
  Target target;
  ExpressionPtr expression;
  ExpressionPtr condition;
  ExpressionPtr filter;  // nullptr: none
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
  Body otherwise;  // kFor: `else`
  // Names that are undefined where each of these two begins; both are scopes (name_scopes.h).
  std::vector<std::string> unset;
  std::vector<std::string> unset_otherwise;
  bool recursive = false;   // kFor
  bool reads_loop = false;  // kFor: its body reads the variable `loop`
  std::unique_ptr<MacroDefinition> macro;
};

// A whole template.
struct Program {
  Body body;
  std::vector<std::string> unset;  // names that are undefined where it begins
};

}  // namespace outrider::jinja
