#include "common/grammar/schema_keywords.h"

#include <algorithm>
#include <map>

#include "common/base/printable.h"

namespace outrider::grammar {
namespace {

using Names = std::set<std::string_view>;

const Names kAnnotations = {"title",    "description", "default",      "examples", "deprecated",
                            "readOnly", "writeOnly",   "$comment",     "$schema",  "$id",
                            "$defs",    "definitions", "discriminator"};
const Names kOfNamedSchemas = {"properties", "$defs", "definitions"};
const Names kOfData = {"const", "enum", "default", "examples"};  // these do not contain schemas
const Names kOfAny = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
const std::map<SchemaType, Names> kOfTypes = {
    {SchemaType::kString, {"minLength", "maxLength", "pattern", "format"}},
    {SchemaType::kNumber,
     {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
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

// The name for one part of the pointer `ref`. Unknown escapes are refused, so two different
// spellings never lead to the same value.
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

// `is_embedded`: whether the schema, or an array of schemas, is below a nested `$id`.
Status CheckReferencesIn(const JsonValue& schema, bool is_root, bool is_embedded, RuleSet& rules) {
  rules.Spend(1);
  for (size_t i = 0; schema.is_array() && i < schema.size(); ++i) {
    OUTRIDER_TRY(CheckReferencesIn(schema[i], /*is_root=*/false, is_embedded, rules));
  }
  if (!schema.is_object()) return Status();
  // In older drafts "#name" names a location in the same document.
  const JsonValue id = schema["$id"], ref = schema["$ref"];
  if (!is_root && id.is_string() && !id.text().starts_with('#')) is_embedded = true;
  if (is_embedded && ref.is_string()) {
    return ref.Error(
        "is below a nested $id, by which it refers to another document; leave out "
        "that $id");
  }
  const auto check = [&](const std::string&, const JsonValue& value) {
    return CheckReferencesIn(value, /*is_root=*/false, is_embedded, rules);
  };
  return schema.ForEachMember([&](const std::string& name, const JsonValue& value) {
    if (kOfData.count(name) != 0) return Status();
    return kOfNamedSchemas.count(name) != 0 ? value.ForEachMember(check) : check(name, value);
  });
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

// Without an error message, which would search the whole document for the member's path.
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
  JsonValue node = root;
  for (size_t begin = 1; begin < pointer.size() && !node.absent();) {
    const size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    OUTRIDER_ASSIGN(const std::string name,
                    Unescaped(ref, std::string_view(pointer).substr(begin + 1, end - begin - 1)));
    node =
        node.is_array() && IsIndex(name) ? node[static_cast<size_t>(std::stoul(name))] : node[name];
    begin = end;
  }
  if (node.absent()) {
    return ref.Error("refers to " + Printable(pointer, kMaxShownName) + ", which is not there");
  }
  return node;
}

Status CheckReferences(const JsonValue& root, RuleSet& rules) {
  return CheckReferencesIn(root, /*is_root=*/true, /*is_embedded=*/false, rules);
}

}  // namespace outrider::grammar
