// Runs a parsed template.
//
// Thread: one; an evaluator renders once.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/builtins.h"
#include "common/text/jinja/loop.h"
#include "common/text/jinja/runtime.h"

namespace outrider::jinja {

// The variables of a scope. A macro keeps the scope in which it was defined.
struct Frame {
  using Variable = std::pair<std::string_view, Value>;  // names are those of the tree

  std::vector<Variable> variables;
  std::shared_ptr<Frame> parent;  // nullptr: the template's own
};

struct Macro {
  const MacroDefinition* definition;
  std::shared_ptr<Frame> frame;
};

// Nesting limit of the evaluator's calls: expressions, statements and macros that call macros.
inline constexpr int kMaxCallDepth = 600;

class Evaluator {
 public:
  // `variables`: those of the template; must outlive it.
  Evaluator(const Dict& variables, const RenderLimits& limits)
      : variables_(variables), runtime_(limits) {}
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // kInvalidArgument "line <n>: ...".
  Result<MarkedText> Run(const Program& program);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using FramePtr = std::shared_ptr<Frame>;

  // A scope within `parent` in which the names `unset` are undefined.
  Result<FramePtr> NewFrame(const FramePtr& parent, const std::vector<std::string>& unset = {});
  // Sets a variable of `frame`.
  Status Define(const FramePtr& frame, std::string_view name, Value value);
  // Counts the variables that a search has passed: 16 are a step.
  Status CountPassed(size_t variables);

  // --- statements ---
  Result<Flow> RunBody(const Body& body, const FramePtr& frame);
  Result<Flow> RunStatement(const Statement& statement, const FramePtr& frame);
  Result<Flow> RunKind(const Statement& statement, const FramePtr& frame);
  Status Print(const Value& value);
  Result<Flow> RunIf(const Statement& statement, const FramePtr& frame);
  Result<Flow> RunFor(const Statement& statement, const FramePtr& frame);
  // Runs one `for` over `items`, at recursion level `depth0`.
  Result<Flow> RunLoop(const Statement& statement, const FramePtr& frame, const Value& items,
                       int depth0);
  Result<std::vector<Value>> Filtered(const Statement& statement, const FramePtr& frame,
                                      std::vector<Value> items);
  Result<Flow> RunBlock(const Statement& statement, const FramePtr& frame);
  Result<Flow> RunWith(const Statement& statement, const FramePtr& frame);
  Status RunCallBlock(const Statement& statement, const FramePtr& frame);
  Status Assign(const Target& target, Value value, const FramePtr& frame);
  // The text that `run` prints.
  template <class RunPart>
  Result<MarkedText> Captured(RunPart run);

  // --- expressions ---
  Result<Value> Evaluate(const Expression& expression, const FramePtr& frame);
  Result<Value> EvaluateKind(const Expression& expression, const FramePtr& frame);
  Result<Value> Lookup(std::string_view name, const Frame* frame);
  Result<Value> EvaluateOperator(const Expression& expression, const FramePtr& frame);
  Result<Value> EvaluateCollection(const Expression& expression, const FramePtr& frame);
  Result<Value> EvaluateDict(const Expression& expression, const FramePtr& frame);
  Result<Value> EvaluateAccess(const Expression& expression, const FramePtr& frame);
  Result<Value> EvaluateCompare(const Expression& expression, const FramePtr& frame);
  Result<Value> EvaluateConcatenation(const Expression& expression, const FramePtr& frame);
  // A filter or a test. `text`: the operand of a block's filter.
  Result<Value> EvaluateBuiltin(const Expression& expression, const FramePtr& frame,
                                const Value* text);
  // The filters of a block, the innermost first.
  Result<Value> Filter(const Expression& expression, const FramePtr& frame, Value text);
  Result<Value> EvaluateCall(const Expression& expression, const FramePtr& frame,
                             Macro* caller = nullptr);
  Result<Arguments> EvaluateArguments(const Expression& expression, const FramePtr& frame);
  Status AddMapping(const Value& mapping, Arguments* arguments);
  Result<Value> CallMacro(const Macro& macro, Arguments arguments);
  Status BindMacro(const Macro& macro, Arguments arguments, const FramePtr& frame);
  Result<Value> CallLoop(const Loop& loop, const Arguments& arguments);

  Macro* NewMacro(const MacroDefinition& definition, const FramePtr& frame);

  const Dict& variables_;
  Runtime runtime_;
  MarkedText out_;
  std::deque<Macro> macros_;
  std::deque<Loop> loops_;
  int depth_ = 0;
  int error_line_ = 0;  // line of the first error; 0: none yet
};

}  // namespace outrider::jinja
