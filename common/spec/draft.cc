#include "common/spec/draft.h"

namespace outrider {

std::string_view RuleName(Rule rule) {
  switch (rule) {
    case Rule::kToken: return "token";
    case Rule::kBlock: return "block";
    case Rule::kSpecTr: return "spectr";
    case Rule::kMultiRound: return "multiround";
    case Rule::kMultiPathBlock: return "multipath-block";
    case Rule::kGumbel: return "gumbel";
  }
  return "";
}

Result<Rule> ParseRule(std::string_view name) {
  std::string names;
  for (const Rule rule : kAllRules) {
    if (name == RuleName(rule)) return rule;
    names += (names.empty() ? "" : ", ") + std::string(RuleName(rule));
  }
  return InvalidArgument("rule \"" + std::string(name) + "\" is none of " + names);
}

bool TakesManyPaths(Rule rule) { return rule != Rule::kToken && rule != Rule::kBlock; }

}  // namespace outrider
