// Reads objects of a JSON Schema, with their allOf.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/schema_reader.h"

namespace outrider::grammar {
namespace {

constexpr size_t kMaxNameBytes = 256;  // of a property

}  // namespace

Status SchemaReader::Collect(const JsonValue& schema, ObjectParts& parts, int depth) {
  if (depth > rules_.limits().nesting) return schema.Error("refers to itself");
  // A schema of allOf is read once for each path to it, and there can be 2^depth of these.
  rules_.Spend(kStepsOfSchema +
               kStepsOfProperty *
                   static_cast<int64_t>(schema["properties"].size() + schema["required"].size()));
  OUTRIDER_TRY(rules_.status());
  OUTRIDER_TRY(schema.MustBeObject());
  if (!schema["$ref"].absent()) {
    OUTRIDER_TRY(CheckKeywords(schema, {"$ref"}, "is not supported beside $ref"));
    OUTRIDER_ASSIGN(const JsonValue target, Resolve(root_, schema["$ref"], rules_));
    return Collect(target, parts, depth + 1);
  }
  std::set<std::string_view> allowed = KeywordsOf(SchemaType::kObject);
  allowed.insert({"type", "allOf"});
  // A schema of several types is read once for each; here it is read for objects.
  const bool is_nested = depth > 0 || !schema["allOf"].absent();
  if (is_nested) {
    OUTRIDER_TRY(CheckKeywords(schema, allowed, "is not supported within allOf"));
    if (!schema["type"].absent() && !schema["type"].Is("object")) {
      return schema["type"].Error("only objects are supported within allOf");
    }
  }
  OUTRIDER_TRY(AddObject(schema, parts));
  OUTRIDER_TRY(schema["allOf"].absent() ? Status() : schema["allOf"].MustBeArray());
  for (size_t i = 0; i < schema["allOf"].size(); ++i) {
    OUTRIDER_TRY(Collect(schema["allOf"][i], parts, depth + 1));
  }
  return Status();
}

Status SchemaReader::AddObject(const JsonValue& schema, ObjectParts& parts) {
  ++parts.schemas;
  OUTRIDER_TRY(schema["properties"].absent() ? Status() : schema["properties"].MustBeObject());
  OUTRIDER_TRY(
      schema["properties"].ForEachMember([&](const std::string& name, const JsonValue& value) {
        return AddProperty(name, value, parts);
      }));
  const JsonValue required = schema["required"];
  OUTRIDER_TRY(required.absent() ? Status() : required.MustBeArray());
  for (size_t i = 0; i < required.size(); ++i) {
    OUTRIDER_ASSIGN(std::string name, required[i].String());
    parts.required.emplace(std::move(name), required[i]);
  }
  if (!schema["additionalProperties"].absent()) {
    parts.additional.push_back(schema["additionalProperties"]);
  }
  return Status();
}

Status SchemaReader::AddProperty(const std::string& name, const JsonValue& value,
                                 ObjectParts& parts) {
  if (name.size() > kMaxNameBytes) {
    return value.Error("its name has more than " + std::to_string(kMaxNameBytes) + " bytes");
  }
  if (!parts.names.insert(name).second) {
    return value.Error("two schemas of allOf have this property, which is not supported");
  }
  parts.properties.emplace_back(name, value);
  return Status();
}

Result<ExprId> SchemaReader::WriteObject(const JsonValue& schema, ObjectParts& parts) {
  for (const JsonValue& additional : parts.additional) {
    if (parts.schemas > 1 && (!additional.is_bool() || !additional.Bool().value())) {
      return additional.Error(
          "is not supported within allOf, where it would rule out the "
          "properties of the other schemas");
    }
  }
  std::map<std::string_view, bool> names;  // whether they are required
  for (const std::string& name : parts.names) names.emplace(name, false);
  JsonValue additional = parts.additional.empty() ? JsonValue(schema["additionalProperties"])
                                                  : parts.additional.front();
  bool is_open = parts.properties.empty();
  if (!additional.absent()) is_open = !additional.is_bool() || additional.Bool().value();
  const bool is_any = additional.absent() || additional.is_bool();
  ExprId other = kNoExpr;
  if (is_open && is_any) other = json_.Value();
  if (is_open && !is_any) {
    OUTRIDER_ASSIGN(other, ReadSchema(additional));
    other = rules_.Shared(other);
  }
  for (const auto& [name, where] : parts.required) {
    const auto found = names.find(name);
    if (found != names.end()) {
      found->second = true;
      continue;
    }
    if (other == kNoExpr) return where.Error("no property has this name, and no other may come");
    if (name.size() > kMaxNameBytes) return where.Error("is longer than a name may be");
    extra_.push_back(name);
    names.emplace(extra_.back(), true);
  }
  return WriteMembers(parts, names, other);
}

Result<ExprId> SchemaReader::WriteMembers(const ObjectParts& parts,
                                          const std::map<std::string_view, bool>& names,
                                          ExprId other) {
  std::vector<Field> fields;
  std::set<std::string_view> known;
  const ExprId colon = json_.Colon();
  const auto add = [&](std::string_view name, ExprId value, bool is_required) {
    fields.push_back({QuoteJson(name), rules_.Sequence({colon, value}), is_required});
  };
  for (const auto& [name, value] : parts.properties) {
    known.insert(name);
    if (value.is_bool() && !value.Bool().value() && !names.at(name)) continue;
    OUTRIDER_ASSIGN(const ExprId expr, ReadSchema(value));
    add(name, expr, names.at(name));
  }
  for (const auto& [name, is_required] : names) {
    if (known.insert(name).second) add(name, other, /*is_required=*/true);
  }
  if (other == kNoExpr && fields.empty()) return rules_.Bytes("{}");
  ExprId rest = kNoExpr;
  if (other != kNoExpr) {
    rest = rules_.Sequence({json_.KeyOtherThan(known), colon, other});
  }
  return json_.InBraces(rules_.Fields(json_.Comma(), std::move(fields), rest));
}

}  // namespace outrider::grammar
