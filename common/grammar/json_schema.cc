#include "common/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/schema_alternatives.h"
#include "common/grammar/schema_reader.h"

namespace outrider::grammar {
namespace {

// The types in both lists; an empty list means all types.
std::vector<SchemaType> CommonTypes(const std::vector<SchemaType>& a,
                                    const std::vector<SchemaType>& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  std::vector<SchemaType> out;
  for (const SchemaType x : a) {
    for (const SchemaType y : b) {
      // Every integer is a number.
      const bool is_integer = (x == SchemaType::kInteger && y == SchemaType::kNumber) ||
                              (x == SchemaType::kNumber && y == SchemaType::kInteger);
      if (is_integer) out.push_back(SchemaType::kInteger);
      if (x == y) out.push_back(x);
    }
  }
  return out;
}

// 1.0 is an integer, too.
bool IsIntegral(const JsonValue& value) {
  if (value.is_integer()) return true;
  if (!value.is_number()) return false;
  constexpr double kMax = std::numeric_limits<double>::max();
  const Result<double> number = value.Number(-kMax, kMax);
  return number.ok() && std::fabs(*number) <= 9e15 && *number == std::trunc(*number);
}

}  // namespace

Result<RuleId> SchemaReader::Read(const std::vector<std::string>& path) {
  JsonValue start = root_;
  std::string pointer = "#";
  for (const std::string& member : path) {
    start = start[member];
    pointer += '/';
    for (const char c : member) pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  const RuleId id = RuleOf(pointer, start);
  // Rules are read one by one, so that references do not recurse.
  while (!pending_.empty()) {
    const auto [rule, read] = std::move(pending_.front());
    pending_.pop_front();
    OUTRIDER_ASSIGN(const ExprId body, read());
    rules_.SetBody(rule, body);
    OUTRIDER_TRY(rules_.status());
  }
  return id;
}

RuleId SchemaReader::RuleOf(const std::string& pointer, const JsonValue& schema) {
  const auto [found, is_new] = refs_.try_emplace(pointer, 0);
  if (is_new) {
    found->second = rules_.DeclareRule(pointer);
    pending_.emplace_back(found->second, [this, schema] { return ReadSchema(schema); });
  }
  return found->second;
}

RuleId SchemaReader::RuleFor(const JsonValue& schema, const std::vector<SchemaType>& types,
                             std::string_view name, Reader read) {
  const auto [found, is_new] = parts_.try_emplace({schema.place(), types}, 0);
  if (is_new) {
    found->second = rules_.DeclareRule(name);
    pending_.emplace_back(found->second, std::move(read));
  }
  return found->second;
}

Result<ExprId> SchemaReader::ReadSchema(const JsonValue& schema) {
  rules_.Spend(kStepsOfSchema);
  OUTRIDER_TRY(rules_.status());
  if (schema.is_bool()) {
    if (schema.Bool().value()) return json_.Value();
    return schema.Error("false allows nothing");
  }
  OUTRIDER_TRY(schema.MustBeObject());
  if (!schema["$ref"].absent()) return ReadRef(schema);
  if (!schema["const"].absent() || !schema["enum"].absent()) return ReadConstants(schema, {});
  if (!schema["anyOf"].absent()) return ReadChoice(schema, "anyOf");
  if (!schema["oneOf"].absent()) return ReadChoice(schema, "oneOf");
  if (!schema["allOf"].absent()) return ReadAllOf(schema);
  return ReadTypes(schema, {});
}

Result<ExprId> SchemaReader::ReadRef(const JsonValue& schema) {
  OUTRIDER_TRY(CheckKeywords(schema, {"$ref"}, "is not supported beside $ref"));
  OUTRIDER_ASSIGN(const JsonValue target, Resolve(root_, schema["$ref"], rules_));
  return rules_.Ref(RuleOf(schema["$ref"].text(), target));
}

Result<ExprId> SchemaReader::ReadConstants(const JsonValue& schema,
                                           const std::vector<SchemaType>& types) {
  const bool is_const = !schema["const"].absent();
  const std::string name = is_const ? "const" : "enum";
  OUTRIDER_TRY(CheckKeywords(schema, {name, "type"}, "is not supported beside " + name));
  std::vector<SchemaType> own;
  if (!schema["type"].absent()) {
    OUTRIDER_ASSIGN(own, TypesOf(schema));
  }
  std::vector<ExprId> ways;
  const auto add = [&](const JsonValue& value) -> Status {
    rules_.Spend(1);
    if (!HasType(value, own) || !HasType(value, types)) return rules_.status();
    const auto names_integer = [](const std::vector<SchemaType>& of) {
      return std::find(of.begin(), of.end(), SchemaType::kInteger) != of.end();
    };
    const bool is_whole = !value.is_integer() && IsIntegral(value);
    if (is_whole && (names_integer(own) || names_integer(types))) {
      OUTRIDER_ASSIGN(const double number, value.Number(-9e15, 9e15));
      ways.push_back(rules_.Bytes(std::to_string(static_cast<int64_t>(number))));
      return rules_.status();
    }
    OUTRIDER_ASSIGN(const ExprId way, WriteValue(value));
    ways.push_back(way);
    return rules_.status();
  };
  if (is_const) {
    OUTRIDER_TRY(add(schema["const"]));
  } else {
    OUTRIDER_TRY(schema["enum"].MustBeArray());
    for (size_t i = 0; i < schema["enum"].size(); ++i) OUTRIDER_TRY(add(schema["enum"][i]));
  }
  if (ways.empty() && types.empty()) return schema[name].Error("holds no value of the type");
  return rules_.Choice(std::move(ways));
}

bool SchemaReader::HasType(const JsonValue& value, const std::vector<SchemaType>& types) {
  if (types.empty()) return true;
  return std::any_of(types.begin(), types.end(), [&](SchemaType type) {
    switch (type) {
      case SchemaType::kNull: return value.is_null();
      case SchemaType::kBoolean: return value.is_bool();
      case SchemaType::kString: return value.is_string();
      case SchemaType::kNumber: return value.is_number();
      case SchemaType::kInteger: return IsIntegral(value);
      case SchemaType::kObject: return value.is_object();
      case SchemaType::kArray: return value.is_array();
      case SchemaType::kAny: return true;
    }
    return false;
  });
}

Result<ExprId> SchemaReader::WriteValue(const JsonValue& value) {
  if (value.is_string()) return rules_.Bytes(QuoteJson(value.text()));
  if (value.is_number() && !value.is_integer() && !value.Number(-9e15, 9e15).ok()) {
    return value.Error("numbers beyond 9e15 are not supported unless they are written as integers");
  }
  if (!value.is_array() && !value.is_object()) return rules_.Bytes(value.Dump());
  std::vector<ExprId> parts;
  const auto add = [&](const std::string& key, const JsonValue& item) -> Status {
    if (!parts.empty()) parts.push_back(json_.Comma());
    if (!key.empty()) parts.insert(parts.end(), {rules_.Bytes(key), json_.Colon()});
    OUTRIDER_ASSIGN(const ExprId part, WriteValue(item));
    parts.push_back(part);
    return rules_.status();
  };
  for (size_t i = 0; value.is_array() && i < value.size(); ++i) OUTRIDER_TRY(add("", value[i]));
  OUTRIDER_TRY(value.ForEachMember(
      [&](const std::string& name, const JsonValue& item) { return add(QuoteJson(name), item); }));
  const ExprId inner = rules_.Sequence(std::move(parts));
  return value.is_array() ? json_.InBrackets(inner) : json_.InBraces(inner);
}

Result<ExprId> SchemaReader::ReadChoice(const JsonValue& schema, const std::string& name) {
  OUTRIDER_TRY(CheckKeywords(schema, {name, "type"}, "is not supported beside " + name));
  const JsonValue alternatives = schema[name], type = schema["type"];
  OUTRIDER_TRY(alternatives.MustBeArray());
  if (alternatives.size() == 0) return alternatives.Wrong("some schemas");
  if (name == "oneOf") OUTRIDER_TRY(CheckDisjoint(root_, alternatives, rules_));
  std::vector<ExprId> ways;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    OUTRIDER_ASSIGN(const ExprId way, type.absent() ? ReadSchema(alternatives[i])
                                                    : ReadAlternative(alternatives[i], schema));
    ways.push_back(way);
  }
  return rules_.Choice(std::move(ways));
}

Result<ExprId> SchemaReader::ReadAlternative(const JsonValue& alternative, const JsonValue& typed) {
  rules_.Spend(kStepsOfSchema);
  OUTRIDER_TRY(rules_.status());
  OUTRIDER_ASSIGN(const std::vector<SchemaType> types, TypesOf(typed));
  if (alternative.is_bool()) {
    if (!alternative.Bool().value()) return alternative.Error("false allows nothing");
    return ReadTypes(alternative, types);
  }
  OUTRIDER_TRY(alternative.MustBeObject());
  if (!alternative["$ref"].absent()) {
    OUTRIDER_ASSIGN(const JsonValue target, Target(alternative));
    return rules_.Ref(RuleFor(target, types, alternative["$ref"].text(),
                              [this, target, typed] { return ReadAlternative(target, typed); }));
  }
  if (!alternative["const"].absent() || !alternative["enum"].absent()) {
    return ReadConstants(alternative, types);
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    if (!alternative[name].absent()) {
      return typed["type"].Error(std::string("is not supported beside alternatives that have ") +
                                 name + "; give each of theirs a type");
    }
  }
  return ReadTypes(alternative, types);
}

Result<JsonValue> SchemaReader::Target(JsonValue schema) {
  for (int i = 0; schema.is_object() && !schema["$ref"].absent(); ++i) {
    OUTRIDER_TRY(CheckKeywords(schema, {"$ref"}, "is not supported beside $ref"));
    if (i == rules_.limits().nesting) return schema.Error("refers to itself");
    OUTRIDER_ASSIGN(schema, Resolve(root_, schema["$ref"], rules_));
  }
  return schema;
}

Result<ExprId> SchemaReader::ReadAllOf(const JsonValue& schema) {
  OUTRIDER_TRY(schema["allOf"].MustBeArray());
  if (schema["allOf"].size() == 1 && HasOnlyKeywords(schema, {"allOf"})) {
    return ReadSchema(schema["allOf"][0]);
  }
  return rules_.Ref(RuleFor(schema, {}, "an allOf", [this, schema]() -> Result<ExprId> {
    ObjectParts parts;
    OUTRIDER_TRY(Collect(schema, parts, 0));
    return WriteObject(schema, parts);
  }));
}

Result<ExprId> SchemaReader::ReadTypes(const JsonValue& schema,
                                       const std::vector<SchemaType>& only) {
  OUTRIDER_ASSIGN(std::vector<SchemaType> types, TypesOf(schema));
  std::set<std::string_view> allowed = {"type"};
  for (const SchemaType type : types) {
    allowed.insert(KeywordsOf(type).begin(), KeywordsOf(type).end());
  }
  OUTRIDER_TRY(CheckKeywords(schema, allowed, "has no effect on the type"));
  if (types.empty() && only.empty()) return json_.Value();
  types = CommonTypes(types, only);
  std::vector<ExprId> ways;
  for (const SchemaType type : types) {
    OUTRIDER_ASSIGN(const ExprId way, ReadType(schema, type));
    ways.push_back(way);
  }
  return rules_.Choice(std::move(ways));
}

Result<ExprId> SchemaReader::ReadType(const JsonValue& schema, SchemaType type) {
  switch (type) {
    case SchemaType::kNull: return json_.Null();
    case SchemaType::kBoolean: return json_.Boolean();
    case SchemaType::kString: return ReadString(schema);
    case SchemaType::kNumber: return ReadNumbers(schema);
    case SchemaType::kInteger: return ReadIntegers(schema);
    case SchemaType::kArray: return ReadArray(schema);
    case SchemaType::kObject: {
      ObjectParts parts;
      OUTRIDER_TRY(Collect(schema, parts, 0));
      return WriteObject(schema, parts);
    }
    case SchemaType::kAny: break;
  }
  return json_.Value();
}

Result<RuleId> ParseJsonSchema(std::string_view schema, RuleSet& rules,
                               const std::vector<std::string>& path) {
  OUTRIDER_ASSIGN(const JsonValue root,
                  ParseJsonObject(schema, "the schema",
                                  {.bytes = rules.limits().source_bytes,
                                   .depth = static_cast<size_t>(rules.limits().nesting),
                                   .exact_text = true}));
  OUTRIDER_TRY(CheckReferences(root, rules));
  return SchemaReader(root, rules).Read(path);
}

RuleId AnyJsonObject(RuleSet& rules) {
  const RuleId root = rules.DeclareRule("root");
  rules.SetBody(root, JsonRules(rules).Object());
  return root;
}

}  // namespace outrider::grammar
