#include "common/grammar/schema_keywords.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace outrider::grammar {
namespace {

using Names = std::set<std::string_view>;

const Names kAnnotations = {"title",    "description", "default",      "examples", "deprecated",
                            "readOnly", "writeOnly",   "$comment",     "$schema",  "$id",
                            "$defs",    "definitions", "discriminator"};
const Names kOfAny = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
const std::map<SchemaType, Names> kOfTypes = {
    {SchemaType::kString, {"minLength", "maxLength", "pattern", "format"}},
    {SchemaType::kNumber, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
    {SchemaType::kObject, {"properties", "required", "additionalProperties"}},
    {SchemaType::kArray, {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
};

const std::map<std::string_view, SchemaType> kTypes = {
    {"null", SchemaType::kNull},       {"boolean", SchemaType::kBoolean},
    {"string", SchemaType::kString},   {"number", SchemaType::kNumber},
    {"integer", SchemaType::kInteger}, {"object", SchemaType::kObject},
    {"array", SchemaType::kArray},
};

bool IsKeyword(std::string_view name) {
  return kOfAny.count(name) != 0 ||
         std::any_of(kOfTypes.begin(), kOfTypes.end(),
                     [&](const auto& each) { return each.second.count(name) != 0; });
}

Result<SchemaType> TypeOf(const JsonValue& name) {
  const auto found = kTypes.find(name.text());
  if (!name.is_string() || found == kTypes.end()) {
    return name.Wrong("null, boolean, string, number, integer, object or array");
  }
  return found->second;
}

// What is known of the values that are valid.
struct Facts {
  std::vector<SchemaType> types;                   // as `type` or constants say; empty: any
  std::optional<std::set<std::string>> constants;  // as JSON
};

SchemaType TypeOfValue(const JsonValue& value) {
  if (value.is_null()) return SchemaType::kNull;
  if (value.is_bool()) return SchemaType::kBoolean;
  if (value.is_string()) return SchemaType::kString;
  if (value.is_number()) return SchemaType::kNumber;
  return value.is_array() ? SchemaType::kArray : SchemaType::kObject;
}

// 1 and 1.0 are one number.
std::string Canonical(const JsonValue& value) {
  if (value.is_number() && !value.is_integer()) {
    const Result<double> number = value.Number(-9e15, 9e15);
    if (number.ok() && *number == static_cast<double>(static_cast<int64_t>(*number))) {
      return std::to_string(static_cast<int64_t>(*number));
    }
  }
  return value.Dump();
}

Result<JsonValue> Target(const JsonValue& root, JsonValue schema, RuleSet& rules) {
  for (int i = 0; schema.is_object() && !schema["$ref"].absent(); ++i) {
    if (i == 64) return schema.Error("refers to itself");
    OUTRIDER_ASSIGN(schema, Resolve(root, schema["$ref"], rules));
  }
  return schema;
}

Result<Facts> FactsOf(const JsonValue& schema) {
  Facts out;
  if (!schema.is_object()) return out;
  const auto add = [&](const JsonValue& value) {
    if (!out.constants) out.constants.emplace();
    out.constants->insert(Canonical(value));
    out.types.push_back(TypeOfValue(value));
  };
  if (!schema["const"].absent()) {
    add(schema["const"]);
  } else if (schema["enum"].is_array()) {
    for (size_t i = 0; i < schema["enum"].size(); ++i) add(schema["enum"][i]);
  } else if (!schema["type"].absent()) {
    OUTRIDER_ASSIGN(out.types, TypesOf(schema));
  }
  return out;
}

bool TypesOverlap(const Facts& a, const Facts& b) {
  if (a.types.empty() || b.types.empty()) return true;
  const auto kind = [](SchemaType type) {
    return type == SchemaType::kInteger ? SchemaType::kNumber : type;
  };
  for (const SchemaType x : a.types) {
    for (const SchemaType y : b.types) {
      if (kind(x) == kind(y)) return true;
    }
  }
  return false;
}

bool ConstantsDiffer(const Facts& a, const Facts& b) {
  if (!a.constants || !b.constants) return false;
  return std::none_of(a.constants->begin(), a.constants->end(),
                      [&](const std::string& each) { return b.constants->count(each) != 0; });
}

bool Requires(const JsonValue& schema, const std::string& name) {
  const JsonValue required = schema["required"];
  for (size_t i = 0; i < required.size(); ++i) {
    if (required[i].Is(name)) return true;
  }
  return false;
}

// The name that one part of the pointer `ref` writes. An escape that JSON Pointer does not know is
// refused: two pointers that are spelled differently never lead to the same value.
Result<std::string> Unescaped(const JsonValue& ref, std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '%') return ref.Error("% in a reference is not supported");
    if (part[i] != '~') {
      name += part[i];
      continue;
    }
    const char escaped = ++i < part.size() ? part[i] : '\0';
    if (escaped != '0' && escaped != '1') {
      return ref.Error("has a ~ that neither 0 nor 1 follows; ~ is written ~0, and / is ~1");
    }
    name += escaped == '0' ? '~' : '/';
  }
  return name;
}

bool IsIndex(std::string_view name) {
  if (name.empty() || name.size() > 6 || (name[0] == '0' && name.size() > 1)) return false;
  return name.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Status CheckKeywords(const JsonValue& schema, const std::set<std::string_view>& allowed,
                     const std::string& elsewhere) {
  return schema.ForEachMember([&](const std::string& name, const JsonValue& value) {
    if (kAnnotations.count(name) != 0 || allowed.count(name) != 0) return Status();
    return value.Error(IsKeyword(name) ? elsewhere : "this keyword is not supported");
  });
}

// Without the words of an error, which look for the member's path in the whole document.
bool HasOnlyKeywords(const JsonValue& schema, const std::set<std::string_view>& allowed) {
  bool has_only = true;
  (void)schema.ForEachMember([&](const std::string& name, const JsonValue&) {
    has_only = has_only && (kAnnotations.count(name) != 0 || allowed.count(name) != 0);
    return Status();
  });
  return has_only;
}

const std::set<std::string_view>& KeywordsOf(SchemaType type) {
  static const Names kNone;
  const auto found = kOfTypes.find(type == SchemaType::kInteger ? SchemaType::kNumber : type);
  return found == kOfTypes.end() ? kNone : found->second;
}

Result<std::vector<SchemaType>> TypesOf(const JsonValue& schema) {
  std::vector<SchemaType> out;
  const JsonValue type = schema["type"];
  if (type.is_array()) {
    for (size_t i = 0; i < type.size(); ++i) {
      OUTRIDER_ASSIGN(const SchemaType each, TypeOf(type[i]));
      if (std::find(out.begin(), out.end(), each) == out.end()) out.push_back(each);
    }
    if (out.empty()) return type.Wrong("the names of some types");
    // Every integer is a number.
    if (std::find(out.begin(), out.end(), SchemaType::kNumber) != out.end()) {
      std::erase(out, SchemaType::kInteger);
    }
  } else if (!type.absent()) {
    OUTRIDER_ASSIGN(const SchemaType each, TypeOf(type));
    out.push_back(each);
  } else {
    for (const auto& [each, names] : kOfTypes) {
      const bool is_meant = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        return !schema[name].absent();
      });
      if (is_meant) out.push_back(each);
    }
  }
  return out;
}

Result<JsonValue> Resolve(const JsonValue& root, const JsonValue& ref, RuleSet& rules) {
  if (!ref.is_string()) return ref.Wrong("a string");
  const std::string& pointer = ref.text();
  rules.Spend(static_cast<int64_t>(pointer.size()));
  OUTRIDER_TRY(rules.status());
  if (pointer != "#" && !pointer.starts_with("#/")) {
    return ref.Error("only references into the schema itself (#, #/..) are supported");
  }
  JsonValue at = root;
  for (size_t begin = 1; begin < pointer.size() && !at.absent();) {
    const size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    OUTRIDER_ASSIGN(const std::string name,
                    Unescaped(ref, std::string_view(pointer).substr(begin + 1, end - begin - 1)));
    at = at.is_array() && IsIndex(name) ? at[static_cast<size_t>(std::stoul(name))] : at[name];
    begin = end;
  }
  if (at.absent()) return ref.Error("refers to " + pointer + ", which is not there");
  return at;
}

Result<bool> AreDisjoint(const JsonValue& root, const JsonValue& a, const JsonValue& b,
                         RuleSet& rules) {
  OUTRIDER_ASSIGN(const JsonValue left, Target(root, a, rules));
  OUTRIDER_ASSIGN(const JsonValue right, Target(root, b, rules));
  OUTRIDER_ASSIGN(const Facts left_facts, FactsOf(left));
  OUTRIDER_ASSIGN(const Facts right_facts, FactsOf(right));
  if (!TypesOverlap(left_facts, right_facts)) return true;
  if (ConstantsDiffer(left_facts, right_facts)) return true;
  // Texts for either are objects then, though a schema without `type` has other valid values.
  for (const JsonValue& schema : {left, right}) {
    OUTRIDER_ASSIGN(const std::vector<SchemaType> types, TypesOf(schema));
    if (types != std::vector<SchemaType>{SchemaType::kObject}) return false;
  }
  bool disjoint = false;
  OUTRIDER_TRY(
      left["properties"].ForEachMember([&](const std::string& name, const JsonValue& value) {
        const JsonValue other = right["properties"][name];
        if (other.absent() || !Requires(left, name) || !Requires(right, name)) return Status();
        OUTRIDER_ASSIGN(const JsonValue value_target, Target(root, value, rules));
        OUTRIDER_ASSIGN(const JsonValue other_target, Target(root, other, rules));
        OUTRIDER_ASSIGN(const Facts x, FactsOf(value_target));
        OUTRIDER_ASSIGN(const Facts y, FactsOf(other_target));
        disjoint = disjoint || !TypesOverlap(x, y) || ConstantsDiffer(x, y);
        return Status();
      }));
  return disjoint;
}

}  // namespace outrider::grammar
