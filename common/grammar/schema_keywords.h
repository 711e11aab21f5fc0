// The keywords of JSON Schema that grammars know, and references between schemas.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/rule_set.h"
#include "common/json/json.h"

namespace outrider::grammar {

// What kind of value a keyword says something about; kAny: about all of them.
enum class SchemaType { kAny, kNull, kBoolean, kString, kNumber, kInteger, kObject, kArray };

// What reading one schema, and each property or required name of an object, is charged: reading
// them takes some 1 and 0.2 us.
inline constexpr int64_t kStepsOfSchema = 64;
inline constexpr int64_t kStepsOfProperty = 16;

// kInvalidArgument for a member that is neither an annotation, nor the place of definitions, nor
// one of `allowed`: it says "<path>: is not supported", or `elsewhere` if it is a keyword that is
// supported in other places.
Status CheckKeywords(const JsonValue& schema, const std::set<std::string_view>& allowed,
                     const std::string& elsewhere);

// Whether CheckKeywords accepts the schema.
bool HasOnlyKeywords(const JsonValue& schema, const std::set<std::string_view>& allowed);

// The types that `type` names, or that the other keywords are about; empty: any.
Result<std::vector<SchemaType>> TypesOf(const JsonValue& schema);

// Keywords of one type.
const std::set<std::string_view>& KeywordsOf(SchemaType type);

// What `$ref` points at, in the document of `root`. kInvalidArgument unless it is "#" or "#/..."
// and there is something. Charges its bytes to the budget of `rules`.
Result<JsonValue> Resolve(const JsonValue& root, const JsonValue& ref, RuleSet& rules);

// kInvalidArgument for a `$ref` below an `$id` that is not the root's: the reference is one into
// the document that the `$id` names. Charges the schemas in `root` to the budget of `rules`.
Status CheckReferences(const JsonValue& root, RuleSet& rules);

}  // namespace outrider::grammar
