// Parses JSON Schema: every text of the grammar is valid for the schema. The reverse does not hold:
// members come in the order of `properties`, white space is as in json_rules.h, and objects that
// list properties have no others unless `additionalProperties` says so.
//
// docs/structured_output.md lists the keywords. Others, and those without effect on the schema's
// type, are refused by name and path; only annotations (`title`, `description` ..) are ignored.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// Adds the rules of `schema`, the text of a JSON object, to `rules`; returns the id of the one that
// a whole text matches. `path`: members from the root to the part for which the text must be valid.
// kInvalidArgument with the path of the keyword.
Result<RuleId> ParseJsonSchema(std::string_view schema, RuleSet& rules,
                               const std::vector<std::string>& path = {});
// Any JSON object.
RuleId AnyJsonObject(RuleSet& rules);

}  // namespace outrider::grammar
