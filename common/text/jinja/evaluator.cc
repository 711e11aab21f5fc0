#include "common/text/jinja/evaluator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/printable.h"
#include "common/text/jinja/level.h"
#include "common/text/jinja/messages.h"
#include "common/text/jinja/parser.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;

Status TooDeep() {
  return InvalidArgument("macros, loops and expressions call each other deeper than " +
                         std::to_string(kMaxCallDepth) + " levels");
}

// The memory of scopes, roughly: of one without variables, of a variable in a vector that has room
// for twice as many, and of one that is undefined, with its reason.
constexpr size_t kFrameBytes = sizeof(Frame) + 32;
constexpr size_t kVariableBytes = 2 * sizeof(Frame::Variable);
constexpr size_t kUnsetBytes = sizeof(Frame::Variable) + 96;
// Of an argument by name, and of an entry of a dictionary with the map of its keys.
constexpr size_t kArgumentBytes = 2 * sizeof(std::pair<std::string, Value>);
constexpr size_t kEntryBytes = 256;

template <class Variables>
auto FindVariable(Variables& variables, std::string_view name) {
  return std::find_if(variables.begin(), variables.end(),
                      [name](const auto& variable) { return variable.first == name; });
}

}  // namespace

Result<Evaluator::FramePtr> Evaluator::NewFrame(const FramePtr& parent,
                                                const std::vector<std::string>& unset) {
  OUTRIDER_TRY(runtime_.CountSteps(1 + unset.size()));
  OUTRIDER_TRY(runtime_.CountMemory(kFrameBytes + unset.size() * kUnsetBytes));
  auto frame = std::make_shared<Frame>(Frame{{}, parent});
  frame->variables.reserve(unset.size());
  for (const std::string& name : unset) {  // all different
    frame->variables.emplace_back(name, Value::Undefined(Quoted(name) + " is undefined"));
  }
  return frame;
}

Status Evaluator::Define(const FramePtr& frame, std::string_view name, Value value) {
  auto& variables = frame->variables;
  const auto known = FindVariable(variables, name);
  OUTRIDER_TRY(CountPassed(static_cast<size_t>(known - variables.begin())));
  if (known != variables.end()) {
    known->second = std::move(value);
    return Status();
  }
  OUTRIDER_TRY(runtime_.CountMemory(kVariableBytes));
  variables.emplace_back(name, std::move(value));
  return Status();
}

Result<MarkedText> Evaluator::Run(const Program& program) {
  const Result<FramePtr> frame = NewFrame(nullptr, program.unset);
  const Result<Flow> flow =
      frame.ok() ? RunBody(program.body, *frame) : Result<Flow>(frame.status());
  // Macros and frames hold each other.
  macros_.clear();
  loops_.clear();
  if (flow.ok()) return std::move(out_);
  const std::string line = "line " + std::to_string(std::max(error_line_, 1));
  return flow.status().Annotate(line);
}

// --- statements ---

Result<Evaluator::Flow> Evaluator::RunBody(const Body& body, const FramePtr& frame) {
  for (const Statement& statement : body) {
    OUTRIDER_ASSIGN(const Flow flow, RunStatement(statement, frame));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunStatement(const Statement& statement, const FramePtr& frame) {
  const Level level(&depth_);
  Result<Flow> flow = Flow::kNext;
  if (Status counted = runtime_.CountSteps(1); !counted.ok()) {
    flow = counted;
  } else {
    flow = depth_ > kMaxCallDepth ? Result<Flow>(TooDeep()) : RunKind(statement, frame);
  }
  if (!flow.ok() && error_line_ == 0) error_line_ = statement.line;
  return flow;
}

Result<Evaluator::Flow> Evaluator::RunKind(const Statement& statement, const FramePtr& frame) {
  switch (statement.kind) {
    case Statement::Kind::kText: OUTRIDER_TRY(Print(statement.text)); break;
    case Statement::Kind::kPrint: {
      OUTRIDER_ASSIGN(const Value value, Evaluate(*statement.expression, frame));
      OUTRIDER_TRY(Print(value));
      break;
    }
    case Statement::Kind::kIf: return RunIf(statement, frame);
    case Statement::Kind::kFor: return RunFor(statement, frame);
    case Statement::Kind::kSet: {
      OUTRIDER_ASSIGN(Value value, Evaluate(*statement.expression, frame));
      OUTRIDER_TRY(Assign(statement.target, std::move(value), frame));
      break;
    }
    case Statement::Kind::kSetBlock:
    case Statement::Kind::kFilterBlock:
    case Statement::Kind::kScope: return RunBlock(statement, frame);
    case Statement::Kind::kWith: return RunWith(statement, frame);
    case Statement::Kind::kMacro: {
      OUTRIDER_TRY(runtime_.CountBytes(sizeof(Macro)));
      OUTRIDER_TRY(
          Define(frame, statement.macro->name, Value::Of(NewMacro(*statement.macro, frame))));
      break;
    }
    case Statement::Kind::kCallBlock: OUTRIDER_TRY(RunCallBlock(statement, frame)); break;
    case Statement::Kind::kBreak: return Flow::kBreak;
    case Statement::Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Evaluator::Print(const Value& value) {
  if (value.is_undefined()) return Status();
  const size_t before = out_.size();
  if (value.is_string()) {
    OUTRIDER_TRY(runtime_.CountBytes(value.text().size()));
    out_.Append(value.marked());
  } else {
    OUTRIDER_TRY(runtime_.AppendRepr(value, &out_));
  }
  if (out_.size() <= runtime_.limits().output_bytes || out_.size() == before) return Status();
  return Status(Code::kOutOfRange, "the rendered text has more than " +
                                       std::to_string(runtime_.limits().output_bytes) +
                                       " bytes; shorten what goes into it");
}

Result<Evaluator::Flow> Evaluator::RunIf(const Statement& statement, const FramePtr& frame) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      OUTRIDER_ASSIGN(const Value condition, Evaluate(*branch.condition, frame));
      if (!IsTrue(condition)) continue;
    }
    return RunBody(branch.body, frame);
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunFor(const Statement& statement, const FramePtr& frame) {
  OUTRIDER_ASSIGN(const Value items, Evaluate(*statement.expression, frame));
  return RunLoop(statement, frame, items, 0);
}

Result<std::vector<Value>> Evaluator::Filtered(const Statement& statement, const FramePtr& frame,
                                               std::vector<Value> items) {
  if (statement.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    OUTRIDER_ASSIGN(const FramePtr scope, NewFrame(frame));
    OUTRIDER_TRY(Assign(statement.target, item, scope));
    OUTRIDER_ASSIGN(const Value wanted, Evaluate(*statement.condition, scope));
    if (IsTrue(wanted)) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Evaluator::Flow> Evaluator::RunLoop(const Statement& statement, const FramePtr& frame,
                                           const Value& iterable, int depth0) {
  OUTRIDER_ASSIGN(std::vector<Value> items, runtime_.ItemsOf(iterable));
  OUTRIDER_ASSIGN(items, Filtered(statement, frame, std::move(items)));
  Loop* loop = nullptr;
  if (statement.reads_loop) {
    OUTRIDER_TRY(runtime_.CountBytes(sizeof(Loop) + items.size() * sizeof(Value)));
    loop = &loops_.emplace_back(items, &statement, frame, depth0);
  }
  bool completed = false;  // an iteration was completed; then `else` does not run, as in Jinja
  for (size_t i = 0; i < items.size(); ++i) {
    OUTRIDER_ASSIGN(const FramePtr scope, NewFrame(frame, statement.unset));
    if (loop != nullptr) {
      loop->SetIndex(i);
      OUTRIDER_TRY(Define(scope, "loop", Value::Of(loop)));
    }
    OUTRIDER_TRY(Assign(statement.target, std::move(items[i]), scope));
    OUTRIDER_ASSIGN(const Flow flow, RunBody(statement.body, scope));
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  if (loop != nullptr) loop->Finish();
  if (completed || statement.otherwise.empty()) return Flow::kNext;
  OUTRIDER_ASSIGN(const FramePtr scope, NewFrame(frame, statement.unset_otherwise));
  return RunBody(statement.otherwise, scope);
}

template <class RunPart>
Result<MarkedText> Evaluator::Captured(RunPart run) {
  MarkedText outer = std::exchange(out_, MarkedText());
  const Status status = run();
  MarkedText captured = std::exchange(out_, std::move(outer));
  OUTRIDER_TRY(status);
  return captured;
}

Result<Evaluator::Flow> Evaluator::RunBlock(const Statement& statement, const FramePtr& frame) {
  OUTRIDER_ASSIGN(const FramePtr scope, NewFrame(frame, statement.unset));
  if (statement.kind == Statement::Kind::kScope) return RunBody(statement.body, scope);
  Flow flow = Flow::kNext;
  OUTRIDER_ASSIGN(MarkedText text, Captured([&]() -> Status {
                    OUTRIDER_ASSIGN(flow, RunBody(statement.body, scope));
                    return Status();
                  }));
  if (flow != Flow::kNext) return flow;
  Value value = Value::Text(std::move(text));
  if (statement.filter != nullptr) {
    OUTRIDER_ASSIGN(value, Filter(*statement.filter, scope, std::move(value)));
  }
  if (statement.kind == Statement::Kind::kFilterBlock) {
    OUTRIDER_TRY(Print(value));
  } else {
    OUTRIDER_TRY(Assign(statement.target, std::move(value), frame));
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::RunWith(const Statement& statement, const FramePtr& frame) {
  OUTRIDER_ASSIGN(const FramePtr scope, NewFrame(frame, statement.unset));
  for (const auto& [target, expression] : statement.assignments) {
    OUTRIDER_ASSIGN(Value value, Evaluate(*expression, frame));
    OUTRIDER_TRY(Assign(target, std::move(value), scope));
  }
  return RunBody(statement.body, scope);
}

Status Evaluator::RunCallBlock(const Statement& statement, const FramePtr& frame) {
  OUTRIDER_TRY(runtime_.CountBytes(sizeof(Macro)));
  OUTRIDER_ASSIGN(const Value value,
                  EvaluateCall(*statement.expression, frame, NewMacro(*statement.macro, frame)));
  return Print(value);
}

Status Evaluator::Assign(const Target& target, Value value, const FramePtr& frame) {
  switch (target.kind) {
    case Target::Kind::kName: return Define(frame, target.name, std::move(value));
    case Target::Kind::kAttribute: {
      OUTRIDER_ASSIGN(const Value space, Lookup(target.name, frame.get()));
      if (space.is_undefined()) return InvalidArgument(space.undefined_reason());
      if (!space.Is(Kind::kNamespace)) {
        return InvalidArgument("cannot set attribute " + Quoted(target.attribute) + " of " +
                               Quoted(target.name) + ", which is not a namespace");
      }
      if (space.space()->Find(target.attribute) == nullptr) {
        OUTRIDER_TRY(runtime_.CountMemory(kEntryBytes));
      }
      space.space()->Set(target.attribute, std::move(value));
      return Status();
    }
    case Target::Kind::kTuple: break;
  }
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime_.ItemsOf(value));
  if (items.size() != target.targets.size()) {
    return InvalidArgument("cannot assign " + std::to_string(items.size()) + " values to " +
                           std::to_string(target.targets.size()) + " names");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    OUTRIDER_TRY(Assign(target.targets[i], items[i], frame));
  }
  return Status();
}

// --- expressions ---

Result<Value> Evaluator::Evaluate(const Expression& expression, const FramePtr& frame) {
  if (Status counted = runtime_.CountSteps(1); !counted.ok()) return counted;
  if (expression.kind == Expression::Kind::kConstant) return expression.constant;
  const Level level(&depth_);
  Result<Value> value =
      depth_ > kMaxCallDepth ? Result<Value>(TooDeep()) : EvaluateKind(expression, frame);
  if (!value.ok() && error_line_ == 0) error_line_ = expression.line;
  return value;
}

Result<Value> Evaluator::EvaluateKind(const Expression& expression, const FramePtr& frame) {
  switch (expression.kind) {
    case Expression::Kind::kConstant: return expression.constant;
    case Expression::Kind::kName: {
      OUTRIDER_ASSIGN(Value value, Lookup(expression.name, frame.get()));
      const std::string& name = expression.name;
      if (value.is_undefined() && (name == "cycler" || name == "joiner" || name == "lipsum")) {
        return InvalidArgument(Quoted(name) + " of Jinja is not supported");
      }
      return value;
    }
    case Expression::Kind::kTuple:
    case Expression::Kind::kList: return EvaluateCollection(expression, frame);
    case Expression::Kind::kDict: return EvaluateDict(expression, frame);
    case Expression::Kind::kAttribute:
    case Expression::Kind::kItem:
    case Expression::Kind::kSlice: return EvaluateAccess(expression, frame);
    case Expression::Kind::kCall: return EvaluateCall(expression, frame);
    case Expression::Kind::kFilter:
    case Expression::Kind::kTest: return EvaluateBuiltin(expression, frame, nullptr);
    case Expression::Kind::kConcatenate: return EvaluateConcatenation(expression, frame);
    case Expression::Kind::kCompare: return EvaluateCompare(expression, frame);
    case Expression::Kind::kConditional: {
      OUTRIDER_ASSIGN(const Value condition, Evaluate(*expression.operands[0], frame));
      if (IsTrue(condition)) return Evaluate(*expression.operands[1], frame);
      if (expression.operands[2] != nullptr) return Evaluate(*expression.operands[2], frame);
      return Value::Undefined("the inline if-expression is false and has no else");
    }
    default: return EvaluateOperator(expression, frame);
  }
}

Status Evaluator::CountPassed(size_t variables) { return runtime_.CountSteps(variables / 16); }

Result<Value> Evaluator::Lookup(std::string_view name, const Frame* frame) {
  size_t passed = 0;
  for (; frame != nullptr; frame = frame->parent.get()) {
    const auto known = FindVariable(frame->variables, name);
    passed += 1 + static_cast<size_t>(known - frame->variables.begin());
    if (known == frame->variables.end()) continue;
    OUTRIDER_TRY(CountPassed(passed));
    return known->second;
  }
  OUTRIDER_TRY(CountPassed(passed));
  if (const Value* given = variables_.Find(name)) return *given;
  if (const Builtin* global = FindGlobal(name)) {
    return Value::Of(std::make_shared<const Function>(Function{global, Value()}));
  }
  return Value::Undefined(Quoted(name) + " is undefined");
}

Result<Value> Evaluator::EvaluateOperator(const Expression& expression, const FramePtr& frame) {
  OUTRIDER_ASSIGN(Value left, Evaluate(*expression.operands[0], frame));
  switch (expression.kind) {
    case Expression::Kind::kNot: return Value::Bool(!IsTrue(left));
    case Expression::Kind::kAnd:
      return IsTrue(left) ? Evaluate(*expression.operands[1], frame) : std::move(left);
    case Expression::Kind::kOr:
      return IsTrue(left) ? std::move(left) : Evaluate(*expression.operands[1], frame);
    case Expression::Kind::kBinary: {
      OUTRIDER_ASSIGN(const Value right, Evaluate(*expression.operands[1], frame));
      return runtime_.Binary(expression.name, left, right);
    }
    default: break;
  }
  // Signs: 0 - x and 0 + x, except for the sign of a float's zero.
  const bool negate = expression.kind == Expression::Kind::kNegate;
  if (left.Is(Kind::kFloat)) return Value::Float(negate ? -left.real() : left.real());
  if (left.AsInt().has_value()) return runtime_.Binary(negate ? "-" : "+", Value::Int(0), left);
  if (left.is_undefined()) return InvalidArgument(left.undefined_reason());
  return InvalidArgument("a sign before a " + std::string(TypeName(left)));
}

Result<Value> Evaluator::EvaluateCollection(const Expression& expression, const FramePtr& frame) {
  std::vector<Value> items;
  for (const ExpressionPtr& operand : expression.operands) {
    OUTRIDER_ASSIGN(items.emplace_back(), Evaluate(*operand, frame));
  }
  const bool tuple = expression.kind == Expression::Kind::kTuple;
  return runtime_.NewItems(tuple ? Sequence::Flavor::kTuple : Sequence::Flavor::kList,
                           std::move(items));
}

Result<Value> Evaluator::EvaluateDict(const Expression& expression, const FramePtr& frame) {
  Dict dict;
  OUTRIDER_TRY(runtime_.CountBytes(expression.operands.size() * sizeof(Value)));
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    OUTRIDER_ASSIGN(Value key, Evaluate(*expression.operands[i], frame));
    OUTRIDER_ASSIGN(Value value, Evaluate(*expression.operands[i + 1], frame));
    if (!IsHashable(key)) {
      return InvalidArgument("a " + std::string(TypeName(key)) + " cannot be a key");
    }
    dict.Set(std::move(key), std::move(value));
  }
  return NewDict(std::move(dict));
}

Result<Value> Evaluator::EvaluateAccess(const Expression& expression, const FramePtr& frame) {
  OUTRIDER_ASSIGN(const Value object, Evaluate(*expression.operands[0], frame));
  if (expression.kind == Expression::Kind::kAttribute) {
    return runtime_.Attribute(object, expression.name);
  }
  Value keys[3];
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    if (expression.operands[i] == nullptr) continue;
    OUTRIDER_ASSIGN(keys[i - 1], Evaluate(*expression.operands[i], frame));
  }
  if (expression.kind == Expression::Kind::kItem) return runtime_.Item(object, keys[0]);
  return runtime_.Slice(object, keys[0], keys[1], keys[2]);
}

Result<Value> Evaluator::EvaluateCompare(const Expression& expression, const FramePtr& frame) {
  OUTRIDER_ASSIGN(Value left, Evaluate(*expression.operands[0], frame));
  for (size_t i = 0; i < expression.comparisons.size(); ++i) {
    OUTRIDER_ASSIGN(Value right, Evaluate(*expression.operands[i + 1], frame));
    OUTRIDER_ASSIGN(const bool holds, runtime_.Compare(expression.comparisons[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Result<Value> Evaluator::EvaluateConcatenation(const Expression& expression,
                                               const FramePtr& frame) {
  MarkedText text;
  for (const ExpressionPtr& operand : expression.operands) {
    OUTRIDER_ASSIGN(const Value value, Evaluate(*operand, frame));
    OUTRIDER_ASSIGN(const MarkedText part, runtime_.TextOf(value));
    text.Append(part);
  }
  return Value::Text(std::move(text));
}

Result<Value> Evaluator::EvaluateBuiltin(const Expression& expression, const FramePtr& frame,
                                         const Value* text) {
  const bool is_filter = expression.kind == Expression::Kind::kFilter;
  const std::string what = (is_filter ? "filter " : "test ") + Quoted(expression.name);
  if (expression.builtin == nullptr) return InvalidArgument(what + " is not known");
  Value self;
  if (text != nullptr) {
    self = *text;
  } else {
    OUTRIDER_ASSIGN(self, Evaluate(*expression.operands[0], frame));
  }
  OUTRIDER_ASSIGN(const Arguments arguments, EvaluateArguments(expression, frame));
  Result<Value> value = CallBuiltin(*expression.builtin, runtime_, self, arguments);
  if (!value.ok()) return value.status().Annotate(what);
  return value;
}

Result<Value> Evaluator::Filter(const Expression& expression, const FramePtr& frame, Value text) {
  const ExpressionPtr& inner = expression.operands[0];
  if (inner != nullptr) {
    OUTRIDER_ASSIGN(text, Filter(*inner, frame, std::move(text)));
  }
  return EvaluateBuiltin(expression, frame, &text);
}

Status Evaluator::AddMapping(const Value& mapping, Arguments* arguments) {
  if (!mapping.Is(Kind::kDict)) return InvalidArgument("what follows ** must be a mapping");
  for (const Dict::Entry& entry : mapping.dict().entries()) {
    if (!entry.key.is_string()) return InvalidArgument("what follows ** must have names as keys");
    OUTRIDER_TRY(runtime_.CountBytes(kArgumentBytes + entry.key.text().size()));
    arguments->named.emplace_back(entry.key.text(), entry.value);
  }
  return Status();
}

Result<Arguments> Evaluator::EvaluateArguments(const Expression& expression,
                                               const FramePtr& frame) {
  Arguments arguments;
  for (const CallArgument& argument : expression.arguments) {
    OUTRIDER_ASSIGN(Value value, Evaluate(*argument.value, frame));
    switch (argument.kind) {
      case CallArgument::Kind::kPositional: arguments.positional.push_back(std::move(value)); break;
      case CallArgument::Kind::kKeyword:
        arguments.named.emplace_back(argument.name, std::move(value));
        break;
      case CallArgument::Kind::kSequence: {
        OUTRIDER_ASSIGN(const std::vector<Value> items, runtime_.ItemsOf(value));
        arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
        break;
      }
      case CallArgument::Kind::kMapping: OUTRIDER_TRY(AddMapping(value, &arguments)); break;
    }
  }
  std::vector<std::string_view> names;
  for (const auto& [name, value] : arguments.named) names.push_back(name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return InvalidArgument("argument " + Quoted(*twice) + " is given twice");
  }
  return arguments;
}

Result<Value> Evaluator::EvaluateCall(const Expression& expression, const FramePtr& frame,
                                      Macro* caller) {
  OUTRIDER_ASSIGN(const Value callee, Evaluate(*expression.operands[0], frame));
  OUTRIDER_ASSIGN(Arguments arguments, EvaluateArguments(expression, frame));
  if (caller != nullptr) arguments.named.emplace_back("caller", Value::Of(caller));
  switch (callee.kind()) {
    case Kind::kUndefined: return InvalidArgument(callee.undefined_reason());
    case Kind::kMacro: return CallMacro(*callee.macro(), std::move(arguments));
    case Kind::kLoop: return CallLoop(*callee.loop(), arguments);
    case Kind::kFunction: {
      const Function& function = callee.function();
      Result<Value> value = CallBuiltin(*function.builtin, runtime_, function.self, arguments);
      // The text of raise_exception is the template's message, not an error of the call.
      if (value.ok() || function.builtin->name == "raise_exception") return value;
      return value.status().Annotate(std::string(function.builtin->name) + "()");
    }
    default: return InvalidArgument("a " + std::string(TypeName(callee)) + " cannot be called");
  }
}

Macro* Evaluator::NewMacro(const MacroDefinition& definition, const FramePtr& frame) {
  return &macros_.emplace_back(Macro{&definition, frame});
}

Status Evaluator::BindMacro(const Macro& macro, Arguments arguments, const FramePtr& frame) {
  const MacroDefinition& definition = *macro.definition;
  const std::string what = "macro " + Quoted(definition.name);
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto it = std::find_if(arguments.named.begin(), arguments.named.end(),
                                 [name](const auto& entry) { return entry.first == name; });
    if (it == arguments.named.end()) return std::nullopt;
    Value value = std::move(it->second);
    arguments.named.erase(it);
    return value;
  };
  // Each parameter searches the arguments by name.
  OUTRIDER_TRY(runtime_.CountSteps(definition.parameters.size()));
  OUTRIDER_TRY(CountPassed(definition.parameters.size() * arguments.named.size()));
  // Assigns all arguments before defaults, which may read the parameters.
  std::vector<const Parameter*> left_out;
  for (size_t i = 0; i < definition.parameters.size(); ++i) {
    const Parameter& parameter = definition.parameters[i];
    std::optional<Value> value = i < arguments.positional.size()
                                     ? std::optional(arguments.positional[i])
                                     : take_named(parameter.name);
    if (!value.has_value()) {
      left_out.push_back(&parameter);
      value = Value::Undefined("parameter " + Quoted(parameter.name) + " was not provided");
    }
    OUTRIDER_TRY(Define(frame, parameter.name, std::move(*value)));
  }
  for (const Parameter* parameter : left_out) {
    if (parameter->default_value == nullptr) continue;
    OUTRIDER_ASSIGN(Value value, Evaluate(*parameter->default_value, frame));
    OUTRIDER_TRY(Define(frame, parameter->name, std::move(value)));
  }
  if (definition.takes_caller) {
    Value caller = take_named("caller").value_or(Value::Undefined("no caller is defined"));
    OUTRIDER_TRY(Define(frame, "caller", std::move(caller)));
  }
  if (definition.takes_keywords) {
    OUTRIDER_TRY(runtime_.CountBytes(arguments.named.size() * kEntryBytes));
    Dict rest;
    for (const auto& [name, value] : arguments.named) rest.Set(Value::Text(name), value);
    OUTRIDER_ASSIGN(Value keywords, NewDict(std::move(rest)));
    OUTRIDER_TRY(Define(frame, "kwargs", std::move(keywords)));
  } else if (!arguments.named.empty()) {
    return InvalidArgument(what + " takes no argument " + Quoted(arguments.named.front().first));
  }
  const size_t taken = std::min(definition.parameters.size(), arguments.positional.size());
  arguments.positional.erase(arguments.positional.begin(),
                             arguments.positional.begin() + static_cast<ptrdiff_t>(taken));
  if (definition.takes_positional) {
    OUTRIDER_ASSIGN(Value rest, NewTuple(std::move(arguments.positional)));
    OUTRIDER_TRY(Define(frame, "varargs", std::move(rest)));
  } else if (!arguments.positional.empty()) {
    return InvalidArgument(what + " takes " + std::to_string(definition.parameters.size()) +
                           " arguments at most");
  }
  return Status();
}

Result<Value> Evaluator::CallMacro(const Macro& macro, Arguments arguments) {
  OUTRIDER_ASSIGN(const FramePtr frame, NewFrame(macro.frame, macro.definition->unset));
  OUTRIDER_TRY(BindMacro(macro, std::move(arguments), frame));
  OUTRIDER_ASSIGN(MarkedText text,
                  Captured([&] { return RunBody(macro.definition->body, frame).status(); }));
  return Value::Text(std::move(text));
}

Result<Value> Evaluator::CallLoop(const Loop& loop, const Arguments& arguments) {
  if (loop.frame() == nullptr || !loop.statement().recursive) {
    return InvalidArgument("only a loop that is marked recursive can be called, while it runs");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return InvalidArgument("loop() takes what to loop over");
  }
  const FramePtr frame = loop.frame();
  OUTRIDER_ASSIGN(MarkedText text, Captured([&] {
                    return RunLoop(loop.statement(), frame, arguments.positional.front(),
                                   loop.depth0() + 1)
                        .status();
                  }));
  return Value::Text(std::move(text));
}

}  // namespace outrider::jinja
