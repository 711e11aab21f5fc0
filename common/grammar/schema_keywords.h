// The keywords of JSON Schema that grammars support, and references between schemas.
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

// The kind of value to which a keyword applies; kAny: all of them.
enum class SchemaType { kAny, kNull, kBoolean, kString, kNumber, kInteger, kObject, kArray };

// Steps charged for reading a schema, and each property or required name of an object: reading them
// takes some 1 and 0.2 us.
inline constexpr int64_t kStepsOfSchema = 64;
inline constexpr int64_t kStepsOfProperty = 16;

// kInvalidArgument for a member that is neither an annotation, nor a container of definitions, nor
// one of `allowed`: "<path>: is not supported", or `elsewhere` if the keyword is supported in other
// places.
Status CheckKeywords(const JsonValue& schema, const std::set<std::string_view>& allowed,
                     const std::string& elsewhere);

// Whether CheckKeywords accepts the schema.
bool HasOnlyKeywords(const JsonValue& schema, const std::set<std::string_view>& allowed);

// The types that `type` names, or to which the other keywords apply; empty: any.
Result<std::vector<SchemaType>> TypesOf(const JsonValue& schema);

// Keywords of one type.
const std::set<std::string_view>& KeywordsOf(SchemaType type);

// The target of `$ref` in the document of `root`. kInvalidArgument unless it is "#" or "#/..." and
// exists. Charges its bytes to the budget of `rules`.
Result<JsonValue> Resolve(const JsonValue& root, const JsonValue& ref, RuleSet& rules);

// kInvalidArgument for a `$ref` below an `$id` that is not the root's, because it refers to the
// document of that `$id`. Charges the schemas in `root` to the budget of `rules`.
Status CheckReferences(const JsonValue& root, RuleSet& rules);

}  // namespace outrider::grammar
