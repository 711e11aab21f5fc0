// Reads JSON Schema: every text of the grammar is valid for the schema. Not every valid text is one
// of the grammar: members come in the order of `properties`, white space is as json_rules.h says,
// and objects that list properties have no others unless `additionalProperties` says so.
//
// docs/structured_output.md lists the keywords. What is not among them, or has no effect on the
// schema's type, is refused by its name and path; only annotations (`title`, `description` ..) say
// nothing.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// Adds the rules of `schema`, the text of a JSON object, to `rules`; the id of the one that a whole
// text matches. `path`: members that lead from the root to the part that the text must be valid
// for. kInvalidArgument with the path of the keyword.
Result<RuleId> ParseJsonSchema(std::string_view schema, RuleSet& rules,
                               const std::vector<std::string>& path = {});
// Any JSON object.
RuleId AnyJsonObject(RuleSet& rules);

}  // namespace outrider::grammar
