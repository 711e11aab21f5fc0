#include "common/spec/draft.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "common/base/check.h"

namespace outrider {
namespace {

const RuleTraits& TraitsOf(Rule rule) {
  const auto* found = std::ranges::find(kRuleTraits, rule, &RuleTraits::rule);
  OUTRIDER_CHECK(found != std::end(kRuleTraits));
  return *found;
}

}  // namespace

std::string_view RuleName(Rule rule) { return TraitsOf(rule).name; }
bool TakesManyPaths(Rule rule) { return TraitsOf(rule).takes_many_paths; }

Result<Rule> ParseRule(std::string_view name) {
  std::string names;
  for (const RuleTraits& rule : kRuleTraits) {
    if (name == rule.name) return rule.rule;
    names += (names.empty() ? "" : ", ") + std::string(rule.name);
  }
  return InvalidArgument("rule \"" + std::string(name) + "\" is none of " + names);
}

}  // namespace outrider
