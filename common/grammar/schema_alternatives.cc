#include "common/grammar/schema_alternatives.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/grammar/json_rules.h"
#include "common/grammar/schema_keywords.h"

namespace outrider::grammar {
namespace {

constexpr size_t kMaxAlternatives = 64;  // all pairs are compared
constexpr int64_t kBytesPerStep = 16;    // of compared constants

// What is known about the values that are valid for a schema.
struct Facts {
  std::set<SchemaType> types;                      // from `type` or the constants; empty: any
  std::optional<std::set<std::string>> constants;  // each in canonical form
  int64_t steps = 1;                               // to compare them
};

struct Alternative {
  Facts facts;
  // Whether its texts are objects, although a schema without `type` has other valid values.
  bool is_object = false;
  std::map<std::string, Facts> required;  // by the name of a required property
};

// Every integer is a number.
SchemaType Comparable(SchemaType type) {
  return type == SchemaType::kInteger ? SchemaType::kNumber : type;
}

SchemaType TypeOfValue(const JsonValue& value) {
  if (value.is_null()) return SchemaType::kNull;
  if (value.is_bool()) return SchemaType::kBoolean;
  if (value.is_string()) return SchemaType::kString;
  if (value.is_number()) return SchemaType::kNumber;
  return value.is_array() ? SchemaType::kArray : SchemaType::kObject;
}

// 1 and 1.0 are the same number. Beyond 9e15, where doubles are no longer exact integers, constants
// are refused when written.
std::string CanonicalNumber(const JsonValue& value) {
  constexpr double kMax = std::numeric_limits<double>::max();
  if (value.is_integer()) return value.Dump();
  const Result<double> number = value.Number(-kMax, kMax);
  if (number.ok() && *number >= -9e15 && *number <= 9e15) {
    const auto whole = static_cast<int64_t>(*number);
    if (static_cast<double>(whole) == *number) return std::to_string(whole);
  }
  return value.Dump();
}

// The same text for values that are equal in JSON Schema, where the order of members is irrelevant.
std::string Canonical(const JsonValue& value) {
  if (value.is_number()) return CanonicalNumber(value);
  if (!value.is_array() && !value.is_object()) return value.Dump();
  std::string out = value.is_array() ? "[" : "{";
  for (size_t i = 0; value.is_array() && i < value.size(); ++i) out += Canonical(value[i]) + ",";
  std::map<std::string, std::string> members;
  (void)value.ForEachMember([&](const std::string& name, const JsonValue& member) {
    members.emplace(name, Canonical(member));
    return Status();
  });
  for (const auto& [name, text] : members) out += QuoteJson(name) + ":" + text + ",";
  return out + (value.is_array() ? "]" : "}");
}

class AlternativeReader {
 public:
  AlternativeReader(const JsonValue& root, RuleSet& rules) : root_(root), rules_(rules) {}

  Result<Alternative> Read(const JsonValue& alternative) {
    OUTRIDER_ASSIGN(const JsonValue schema, Target(alternative));
    Alternative out;
    OUTRIDER_ASSIGN(out.facts, FactsOf(schema));
    OUTRIDER_ASSIGN(const std::vector<SchemaType> types, TypesOf(schema));
    out.is_object = types == std::vector<SchemaType>{SchemaType::kObject};
    const JsonValue required = schema["required"], properties = schema["properties"];
    for (size_t i = 0; i < required.size(); ++i) {
      rules_.Spend(kStepsOfProperty);
      OUTRIDER_TRY(rules_.status());
      const JsonValue property = properties[required[i].text()];
      if (!required[i].is_string() || property.absent()) continue;
      OUTRIDER_ASSIGN(const JsonValue target, Target(property));
      OUTRIDER_ASSIGN(out.required[required[i].text()], FactsOf(target));
    }
    return out;
  }

 private:
  Result<JsonValue> Target(JsonValue schema) {
    for (int i = 0; schema.is_object() && !schema["$ref"].absent(); ++i) {
      if (i == rules_.limits().nesting) return schema.Error("refers to itself");
      OUTRIDER_ASSIGN(schema, Resolve(root_, schema["$ref"], rules_));
    }
    return schema;
  }

  Result<Facts> FactsOf(const JsonValue& schema) {
    rules_.Spend(kStepsOfSchema);
    Facts out;
    if (!schema.is_object()) return out;
    const auto add = [&](const JsonValue& value) {
      std::string text = Canonical(value);
      const auto bytes = static_cast<int64_t>(text.size());
      rules_.Spend(kStepsOfProperty + bytes);
      out.steps += 1 + bytes / kBytesPerStep;
      out.constants->insert(std::move(text));
      out.types.insert(TypeOfValue(value));
      return rules_.status();
    };
    const JsonValue values = schema["enum"];
    if (!schema["const"].absent()) {
      out.constants.emplace();
      OUTRIDER_TRY(add(schema["const"]));
    } else if (values.is_array()) {
      out.constants.emplace();
      for (size_t i = 0; i < values.size(); ++i) OUTRIDER_TRY(add(values[i]));
    } else if (!schema["type"].absent()) {
      OUTRIDER_ASSIGN(const std::vector<SchemaType> types, TypesOf(schema));
      for (const SchemaType type : types) out.types.insert(Comparable(type));
    }
    return out;
  }

  const JsonValue root_;
  RuleSet& rules_;
};

// Whether no value is valid for both.
bool Exclude(const Facts& a, const Facts& b, RuleSet& rules) {
  rules.Spend(a.steps + b.steps);
  const auto is_in = [](const auto& set) {
    return [&set](const auto& each) { return set.count(each) != 0; };
  };
  if (!a.types.empty() && !b.types.empty() &&
      std::none_of(a.types.begin(), a.types.end(), is_in(b.types))) {
    return true;
  }
  return a.constants && b.constants &&
         std::none_of(a.constants->begin(), a.constants->end(), is_in(*b.constants));
}

bool Exclude(const Alternative& a, const Alternative& b, RuleSet& rules) {
  if (Exclude(a.facts, b.facts, rules)) return true;
  if (!a.is_object || !b.is_object) return false;
  return std::any_of(a.required.begin(), a.required.end(), [&](const auto& property) {
    const auto other = b.required.find(property.first);
    return other != b.required.end() && Exclude(property.second, other->second, rules);
  });
}

}  // namespace

Status CheckDisjoint(const JsonValue& root, const JsonValue& alternatives, RuleSet& rules) {
  if (alternatives.size() > kMaxAlternatives) {
    return alternatives.Error("has more than " + std::to_string(kMaxAlternatives) +
                              " alternatives");
  }
  AlternativeReader reader(root, rules);
  std::vector<Alternative> read;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    OUTRIDER_ASSIGN(Alternative alternative, reader.Read(alternatives[i]));
    for (size_t j = 0; j < i; ++j) {
      const bool exclude = Exclude(read[j], alternative, rules);
      OUTRIDER_TRY(rules.status());
      if (!exclude) {
        return alternatives[i].Error("a value may be valid for this and for alternative " +
                                     std::to_string(j) +
                                     " too; tell them apart by type or by a constant in a "
                                     "required property, or use anyOf");
      }
    }
    read.push_back(std::move(alternative));
  }
  return Status();
}

}  // namespace outrider::grammar
