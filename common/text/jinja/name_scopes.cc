#include "common/text/jinja/name_scopes.h"

#include <set>
#include <string_view>

namespace outrider::jinja {
namespace {

// The names that a scope's own statements use, without those of inner scopes.
struct Scope {
  const Scope* parent = nullptr;
  std::set<std::string_view> names = {};
  std::vector<std::string_view> assigned_first = {};  // outside of an `if`, before any other use

  void Use(std::string_view name) { names.insert(name); }
  void Assign(std::string_view name, bool conditional) {
    if (names.insert(name).second && !conditional) assigned_first.push_back(name);
  }
  void Use(const Expression& expression) {
    if (expression.kind == Expression::Kind::kName) Use(expression.name);
    for (const ExpressionPtr& operand : expression.operands) {
      if (operand != nullptr) Use(*operand);
    }
    for (const CallArgument& argument : expression.arguments) Use(*argument.value);
  }
  void Assign(const Target& target, bool conditional) {
    switch (target.kind) {
      case Target::Kind::kName: Assign(target.name, conditional); break;
      case Target::Kind::kAttribute: Use(target.name); break;
      case Target::Kind::kTuple:
        for (const Target& one : target.targets) Assign(one, conditional);
        break;
    }
  }
  // Declares a parameter, which has a value from the beginning.
  void Declare(const Target& target) { Assign(target, /*conditional=*/true); }

  // A name that an outer scope uses belongs to that scope. REQUIRES: those are complete.
  std::vector<std::string> Unset() const {
    std::vector<std::string> unset;
    for (const std::string_view name : assigned_first) {
      const Scope* outer = parent;
      while (outer != nullptr && !outer->names.contains(name)) outer = outer->parent;
      if (outer == nullptr) unset.emplace_back(name);
    }
    return unset;
  }
};

// Records what the statements of one scope use. `inner` gets those with scopes of their own.
void Note(Body* body, bool conditional, Scope* scope, std::vector<Statement*>* inner) {
  for (Statement& statement : *body) {
    switch (statement.kind) {
      case Statement::Kind::kText:
      case Statement::Kind::kBreak:
      case Statement::Kind::kContinue: continue;
      case Statement::Kind::kPrint: scope->Use(*statement.expression); continue;
      case Statement::Kind::kIf:
        for (Branch& branch : statement.branches) {
          if (branch.condition != nullptr) scope->Use(*branch.condition);
          Note(&branch.body, /*conditional=*/true, scope, inner);
        }
        continue;
      case Statement::Kind::kSet:
        scope->Use(*statement.expression);
        scope->Assign(statement.target, conditional);
        continue;
      case Statement::Kind::kSetBlock: scope->Assign(statement.target, conditional); break;
      case Statement::Kind::kMacro: scope->Assign(statement.macro->name, conditional); break;
      case Statement::Kind::kFor:
      case Statement::Kind::kCallBlock: scope->Use(*statement.expression); break;
      case Statement::Kind::kFilterBlock: scope->Use(*statement.filter); break;
      case Statement::Kind::kWith:
        for (const auto& [target, value] : statement.assignments) scope->Use(*value);
        break;
      case Statement::Kind::kScope: break;
    }
    inner->push_back(&statement);
  }
}

void Fill(Statement* statement, const Scope& outer);

// Completes `scope` with `body`, then the inner scopes. Returns the names that it leaves unset.
std::vector<std::string> FillBody(Body* body, Scope* scope) {
  std::vector<Statement*> inner;
  Note(body, /*conditional=*/false, scope, &inner);
  for (Statement* statement : inner) Fill(statement, *scope);
  return scope->Unset();
}

void Fill(Statement* statement, const Scope& outer) {
  Scope scope{&outer};
  if (MacroDefinition* const macro = statement->macro.get(); macro != nullptr) {
    for (const Parameter& parameter : macro->parameters) scope.Use(parameter.name);
    for (const Parameter& parameter : macro->parameters) {
      if (parameter.default_value != nullptr) scope.Use(*parameter.default_value);
    }
    macro->unset = FillBody(&macro->body, &scope);
    return;
  }
  if (statement->kind == Statement::Kind::kFor) scope.Declare(statement->target);
  if (statement->kind == Statement::Kind::kSetBlock && statement->filter != nullptr) {
    scope.Use(*statement->filter);
  }
  for (const auto& [target, value] : statement->assignments) scope.Declare(target);
  statement->unset = FillBody(&statement->body, &scope);
  Scope otherwise{&outer};
  statement->unset_otherwise = FillBody(&statement->otherwise, &otherwise);
}

}  // namespace

std::vector<std::string> FindUnsetNames(Body* body) {
  Scope scope;
  return FillBody(body, &scope);
}

}  // namespace outrider::jinja
