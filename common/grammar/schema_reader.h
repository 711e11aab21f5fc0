// Reads a JSON Schema part by part: dispatch, references, constants and choices in json_schema.cc;
// strings, numbers and arrays in schema_values.cc; objects in schema_objects.cc.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/json_rules.h"
#include "common/grammar/rule_set.h"
#include "common/grammar/schema_keywords.h"
#include "common/json/json.h"

namespace outrider::grammar {

// The properties of one object, from a schema and its allOf.
struct ObjectParts {
  std::vector<std::pair<std::string, JsonValue>> properties;
  std::set<std::string> names;                // of properties
  std::map<std::string, JsonValue> required;  // names, and the schemas that require them
  std::vector<JsonValue> additional;
  int schemas = 0;
};

class SchemaReader {
 public:
  SchemaReader(const JsonValue& root, RuleSet& rules) : root_(root), rules_(rules), json_(rules) {}

  // The rule for a whole text that is valid for the part at `path`.
  Result<RuleId> Read(const std::vector<std::string>& path);

 private:
  RuleId RuleOf(const std::string& pointer, const JsonValue& schema);
  // The rule for what `read` returns, made when first needed and read later, so that reading does
  // not recurse through references. It depends on `schema` and `types` alone.
  using Reader = std::function<Result<ExprId>()>;
  RuleId RuleFor(const JsonValue& schema, const std::vector<SchemaType>& types,
                 std::string_view name, Reader read);
  Result<ExprId> ReadSchema(const JsonValue& schema);
  Result<ExprId> ReadRef(const JsonValue& schema);
  // `types`, here and below: those that the value may have; empty: any.
  Result<ExprId> ReadConstants(const JsonValue& schema, const std::vector<SchemaType>& types);
  static bool HasType(const JsonValue& value, const std::vector<SchemaType>& types);
  // A value exactly as it must be written.
  Result<ExprId> WriteValue(const JsonValue& value);
  Result<ExprId> ReadChoice(const JsonValue& schema, const std::string& name);
  // What of an alternative has one of the types of `typed`, the schema around it. An empty choice
  // if nothing has.
  Result<ExprId> ReadAlternative(const JsonValue& alternative, const JsonValue& typed);
  // What a `$ref` finally refers to; the schema itself without one.
  Result<JsonValue> Target(JsonValue schema);
  Result<ExprId> ReadAllOf(const JsonValue& schema);
  Result<ExprId> ReadTypes(const JsonValue& schema, const std::vector<SchemaType>& only);
  Result<ExprId> ReadType(const JsonValue& schema, SchemaType type);

  Result<int> ReadCount(const JsonValue& value, int otherwise);
  Result<ExprId> ReadString(const JsonValue& schema);
  // The text of a string with a pattern or a format.
  Result<ExprId> ReadPattern(const JsonValue& schema);
  // `text` with `min` to `max` characters.
  Result<ExprId> WithLength(const JsonValue& pattern, ExprId text, int min, int max);
  // The equivalent integer bound: 4.5 is 5 for a lower bound.
  Result<std::optional<int64_t>> ReadIntegerBound(const JsonValue& value, bool is_low,
                                                  bool* is_excluded);
  Result<ExprId> ReadIntegers(const JsonValue& schema);
  Result<ExprId> ReadNumbers(const JsonValue& schema);
  // The numbers that all of `bounds`, and `multiple` if there is one, allow. REQUIRES: there is at
  // least one of these.
  Result<ExprId> AllOfNumbers(const JsonValue& multiple, const std::vector<ExprId>& bounds,
                              bool is_integer);
  Result<ExprId> ReadArray(const JsonValue& schema);
  // `first`, then any number of `item` unless that is kNoExpr; `min` to `max` in all.
  ExprId Tuple(const std::vector<ExprId>& first, ExprId item, int min, int max);

  // Adds the keywords of an object's `schema` and of its allOf.
  Status Collect(const JsonValue& schema, ObjectParts& parts, int depth);
  // Adds the object keywords of `schema` itself.
  static Status AddObject(const JsonValue& schema, ObjectParts& parts);
  static Status AddProperty(const std::string& name, const JsonValue& value, ObjectParts& parts);
  Result<ExprId> WriteObject(const JsonValue& schema, ObjectParts& parts);
  Result<ExprId> WriteMembers(const ObjectParts& parts,
                              const std::map<std::string_view, bool>& names, ExprId other);

  const JsonValue root_;
  RuleSet& rules_;
  JsonRules json_;
  std::map<std::string, RuleId> refs_;  // by pointer, which is unique (Resolve)
  std::map<std::pair<const void*, std::vector<SchemaType>>, RuleId> parts_;  // of RuleFor
  std::deque<std::pair<RuleId, Reader>> pending_;
  std::deque<std::string> extra_;  // required names that are not properties
};

}  // namespace outrider::grammar
