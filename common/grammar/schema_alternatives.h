// Checks that the alternatives of a oneOf exclude each other, so that its grammar is that of an
// anyOf.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/grammar/rule_set.h"
#include "common/json/json.h"

namespace outrider::grammar {

// kInvalidArgument, with the path of an alternative, unless no value is valid for two of the
// schemas `alternatives`, an array, as shown by their types, their constants, and the types and
// constants of properties that both require. `root`: the document, for `$ref`. Charges its work to
// the budget of `rules`.
Status CheckDisjoint(const JsonValue& root, const JsonValue& alternatives, RuleSet& rules);

}  // namespace outrider::grammar
