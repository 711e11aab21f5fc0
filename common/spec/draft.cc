#include "common/spec/draft.h"

#include <string>

namespace outrider {

Result<Rule> ParseRule(std::string_view name) {
  if (name == "token") return Rule::kToken;
  if (name == "block") return Rule::kBlock;
  return InvalidArgument("rule \"" + std::string(name) + "\" is none of token, block");
}

std::string_view RuleName(Rule rule) { return rule == Rule::kToken ? "token" : "block"; }

}  // namespace outrider
