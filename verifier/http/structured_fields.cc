#include "verifier/http/structured_fields.h"

#include <string>
#include <utility>
#include <vector>

#include "verifier/http/request_values.h"

namespace outrider {
namespace {

// A schema is an object, or its JSON in a string.
Result<GrammarSource> SchemaOf(const JsonValue& value) {
  if (value.is_object())
    return GrammarSource{.kind = GrammarSource::Kind::kJsonSchema, .text = value.Dump()};
  if (!value.is_string()) return value.Wrong("a JSON Schema, as an object or a string");
  return GrammarSource{.kind = GrammarSource::Kind::kJsonSchema, .text = value.text()};
}

Result<GrammarSource> ChoiceOf(const JsonValue& value) {
  GrammarSource source{.kind = GrammarSource::Kind::kChoice};
  if (!value.is_array()) return value.Wrong("an array of strings");
  OUTRIDER_TRY(ReadStrings(value, kMaxGrammarChoices, &source.choices));
  return source;
}

Result<GrammarSource> TextOf(GrammarSource::Kind kind, const JsonValue& value) {
  OUTRIDER_ASSIGN(std::string text, value.String());
  return GrammarSource{.kind = kind, .text = std::move(text)};
}

Result<std::optional<GrammarSource>> ResponseFormat(const JsonValue& format) {
  if (format.is_null()) return std::optional<GrammarSource>();
  OUTRIDER_TRY(format.MustBeObject());
  const JsonValue type = format["type"];
  if (type.Is("text")) {
    OUTRIDER_TRY(format.AllowOnly({"type"}));
    return std::optional<GrammarSource>();
  }
  if (type.Is("json_object")) {
    OUTRIDER_TRY(format.AllowOnly({"type"}));
    return std::optional(GrammarSource{.kind = GrammarSource::Kind::kJsonObject});
  }
  if (!type.Is("json_schema")) return type.Wrong("\"text\", \"json_object\" or \"json_schema\"");
  OUTRIDER_TRY(format.AllowOnly({"type", "json_schema"}));
  const JsonValue named = format["json_schema"];
  OUTRIDER_TRY(named.MustBeObject());
  // Every schema is enforced strictly; its name and description are for people.
  OUTRIDER_TRY(named.AllowOnly({"name", "description", "strict", "schema"}));
  OUTRIDER_ASSIGN(GrammarSource source, SchemaOf(named["schema"]));
  return std::optional(std::move(source));
}

// One of vLLM's names for a kind: a member of `structured_outputs`, or its older field.
struct Name {
  const char* member;
  const char* field;
  Result<GrammarSource> (*read)(const JsonValue& value);
};
constexpr Name kNames[] = {
    {"json", "guided_json", SchemaOf},
    {"regex", "guided_regex",
     [](const JsonValue& value) { return TextOf(GrammarSource::Kind::kRegex, value); }},
    {"choice", "guided_choice", ChoiceOf},
    {"grammar", "guided_grammar",
     [](const JsonValue& value) { return TextOf(GrammarSource::Kind::kGbnf, value); }},
};

Status CheckMembers(const JsonValue& outputs) {
  OUTRIDER_TRY(outputs.MustBeObject());
  OUTRIDER_TRY(
      outputs.AllowOnly({"json", "regex", "choice", "grammar", "json_object", "disable_fallback",
                         "disable_any_whitespace", "disable_additional_properties",
                         "whitespace_pattern", "structural_tag"}));
  // An object without a schema may have any members. Other behaviour is documented in
  // docs/structured_output.md, whatever these fields say.
  for (const char* refused :
       {"disable_additional_properties", "whitespace_pattern", "structural_tag"}) {
    const JsonValue value = outputs[refused];
    if (!value.is_null() && !value.IsOneOf("[false]")) {
      return InvalidArgument(value.path() + " is " + value.Shown() +
                             ", which is not served; leave it out");
    }
  }
  for (const char* ignored : {"disable_fallback", "disable_any_whitespace"}) {
    bool value = false;
    OUTRIDER_TRY(outputs[ignored].Read(&value));
  }
  return Status();
}

}  // namespace

Result<std::optional<StructuredOutput>> StructuredOutputOf(const JsonValue& body) {
  std::optional<StructuredOutput> found;
  const auto take = [&](const JsonValue& value, Result<GrammarSource> source) {
    if (!source.ok()) return source.status();
    if (found.has_value()) {
      return InvalidArgument(value.path() + ": " + found->field +
                             " already says what to follow; leave one of them out");
    }
    found = {.source = std::move(source).value(), .field = value.path()};
    return Status();
  };
  const JsonValue format = body["response_format"];
  OUTRIDER_ASSIGN(std::optional<GrammarSource> formatted, ResponseFormat(format));
  if (formatted.has_value()) OUTRIDER_TRY(take(format, std::move(*formatted)));
  const JsonValue outputs = body["structured_outputs"];
  if (!outputs.is_null()) OUTRIDER_TRY(CheckMembers(outputs));
  for (const Name& name : kNames) {
    for (const JsonValue& value : {outputs[name.member], body[name.field]}) {
      if (!value.is_null()) OUTRIDER_TRY(take(value, name.read(value)));
    }
  }
  bool any_object = false;
  const JsonValue object = outputs["json_object"];
  OUTRIDER_TRY(object.Read(&any_object));
  if (any_object)
    OUTRIDER_TRY(take(object, GrammarSource{.kind = GrammarSource::Kind::kJsonObject}));
  return found;
}

}  // namespace outrider
