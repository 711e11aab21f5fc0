#include "verifier/chat/tool_grammar.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/json/json.h"
#include "verifier/chat/markers.h"

namespace outrider {
namespace {

// A GBNF string literal.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return quoted + "\"";
}

// How a format joins calls.
struct Frame {
  std::string before_calls = "", between_calls = ", ", after_calls = "";
  std::string before_name = "{\"name\": \"",
              before_arguments = "\", \"arguments\": ", after_arguments = "}";
};

Frame FrameOf(ToolFormat format) {
  using namespace markers;
  const auto text = [](std::string_view a, std::string_view b = "") {
    return std::string(a) + std::string(b);
  };
  Frame frame;
  switch (format) {
    case ToolFormat::kNone: break;
    case ToolFormat::kHermes:
      frame.between_calls = "\n";
      frame.before_name = text(kHermes, "\n{\"name\": \"");
      frame.after_arguments = text("}\n", kHermesEnd);
      break;
    case ToolFormat::kLlama3Json:
      frame.between_calls = "; ";
      frame.before_arguments = "\", \"parameters\": ";
      break;
    case ToolFormat::kMistral:
      frame.before_calls = text(kMistral, "[");
      frame.after_calls = "]";
      break;
    case ToolFormat::kPythonic:
      return {.before_calls = "[",
              .between_calls = ", ",
              .after_calls = "]",
              .before_name = "",
              .before_arguments = "(",
              .after_arguments = ")"};
    case ToolFormat::kDeepSeekV3:
      return {.before_calls = text(kDeepSeekCalls),
              .between_calls = "\n",
              .after_calls = text(kDeepSeekCallsEnd),
              .before_name = text(kDeepSeekCall, "function") + text(kDeepSeekName),
              .before_arguments = "\n```json\n",
              .after_arguments = text("\n```", kDeepSeekCallEnd)};
    case ToolFormat::kDeepSeekV31:
      return {.before_calls = text(kDeepSeekCalls),
              .between_calls = "",
              .after_calls = text(kDeepSeekCallsEnd),
              .before_name = text(kDeepSeekCall),
              .before_arguments = text(kDeepSeekName),
              .after_arguments = text(kDeepSeekCallEnd)};
    case ToolFormat::kHarmony:
      return {.between_calls = text(kHarmonyCall, kHarmonyStart) + "assistant",
              .before_name = " to=functions.",
              .before_arguments = text(kHarmonyChannel, "commentary json") + text(kHarmonyMessage),
              .after_arguments = ""};
  }
  return frame;
}

bool IsPythonName(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !name.empty() && kLetters.find(name[0]) != kLetters.npos &&
         name.find_first_not_of(std::string(kLetters) + "0123456789") == name.npos;
}

// Writes the rules of a grammar's text.
class Writer {
 public:
  explicit Writer(const ToolGrammarOptions& options)
      : options_(options), frame_(FrameOf(options.format)) {}

  Status AddTool(const ToolDescription& tool) {
    std::string arguments = "args-" + tool.name;
    if (options_.format == ToolFormat::kPythonic) {
      OUTRIDER_TRY(AddKeywords(tool));
    } else if (options_.free_text && !tool.strict) {
      arguments = AnyObject();
    } else if (tool.parameters.empty()) {
      arguments = Quoted("{}");
    } else {
      source_.schemas.push_back({.name = arguments, .schema = tool.parameters});
    }
    calls_ += (calls_.empty() ? "" : " | ") + Quoted(tool.name + frame_.before_arguments) + " " +
              arguments;
    return Status();
  }

  GrammarSource Finish() {
    source_.kind = GrammarSource::Kind::kGbnf;
    if (options_.free_text) {
      AddFreeText();
    } else {
      const std::string more =
          options_.several ? " (" + Quoted(frame_.between_calls + frame_.before_name) + " call)*"
                           : "";
      AddRule("root", ReasoningPart() + Quoted(frame_.before_calls + frame_.before_name) + " call" +
                          more + " " + Quoted(frame_.after_calls));
    }
    AddRule("call", "(" + calls_ + ") " + Quoted(frame_.after_arguments));
    return std::move(source_);
  }

 private:
  void AddRule(const std::string& name, const std::string& body) {
    source_.text += name + " ::= " + body + "\n";
  }

  // The rule for arguments without a schema. No tool's rule has this name.
  std::string AnyObject() {
    std::string name = "any-object";
    if (!has_any_object_)
      source_.schemas.push_back({.name = name, .schema = "{\"type\":\"object\"}"});
    has_any_object_ = true;
    return name;
  }

  // Writes a rule per property and per whether another came before it, since commas separate those
  // that are present. A rule's name ends with the tool's, so that two tools share none.
  Status AddKeywords(const ToolDescription& tool) {
    OUTRIDER_ASSIGN(const std::vector<Keyword> keywords, KeywordsOf(tool));
    for (size_t i = 0; i <= keywords.size(); ++i) {
      for (const bool is_first : {true, false}) {
        const auto name_of = [&](size_t index, bool first) {
          if (index == 0 && first) return "args-" + tool.name;
          return (first ? "first-" : "next-") + std::to_string(index) + "-" + tool.name;
        };
        if (i == keywords.size()) {
          AddRule(name_of(i, is_first), "\"\"");
          continue;
        }
        const std::string value = "value-" + std::to_string(i) + "-" + tool.name;
        std::string body = Quoted((is_first ? "" : ", ") + keywords[i].name + "=") + " " + value +
                           " " + name_of(i + 1, false);
        if (!keywords[i].is_required) body += " | " + name_of(i + 1, is_first);
        AddRule(name_of(i, is_first), body);
        if (!is_first) continue;
        OUTRIDER_TRY(AddValue(tool, keywords[i], value));
      }
    }
    return Status();
  }

  struct Keyword {
    std::string name;
    JsonValue schema;
    bool is_required = false;
  };

  // Writes the rule `name`, the keyword's value. A schema with references brings the schemas it
  // refers to.
  Status AddValue(const ToolDescription& tool, const Keyword& keyword, std::string name) {
    SchemaRule rule{.name = std::move(name), .schema = tool.parameters, .path = {}};
    if (keyword.schema.is_object() && tool.parameters.find("$ref") == std::string::npos) {
      rule.schema = keyword.schema.Dump();
    } else {
      rule.path = {"properties", keyword.name};
    }
    schema_bytes_ += rule.schema.size();
    if (schema_bytes_ > kMaxGrammarBytes) {
      return InvalidArgument(tool.name + ": its parameters are too large for calls in Python: " +
                             "with the schema of each, more than " +
                             std::to_string(kMaxGrammarBytes) + " bytes");
    }
    source_.schemas.push_back(std::move(rule));
    return Status();
  }
  static Result<std::vector<Keyword>> KeywordsOf(const ToolDescription& tool) {
    std::vector<Keyword> keywords;
    if (tool.parameters.empty()) return keywords;
    OUTRIDER_ASSIGN(const JsonValue schema,
                    ParseJsonObject(tool.parameters, tool.name,
                                    {.depth = static_cast<size_t>(grammar::GrammarLimits().nesting),
                                     .exact_text = true}));
    const auto refuse = [&](const std::string& why) {
      return InvalidArgument(tool.name + ": its parameters " + why +
                             ", which calls in Python cannot be constrained to");
    };
    for (const char* name : {"$ref", "allOf", "anyOf", "oneOf", "enum", "const"}) {
      if (!schema[name].absent()) return refuse(std::string("have ") + name);
    }
    std::set<std::string> required;
    for (size_t i = 0; i < schema["required"].size(); ++i) {
      required.insert(schema["required"][i].text());
    }
    OUTRIDER_TRY(
        schema["properties"].ForEachMember([&](const std::string& name, const JsonValue& value) {
          if (!IsPythonName(name)) return refuse("have \"" + name + "\"");
          keywords.push_back({name, value, required.erase(name) > 0});
          return Status();
        }));
    if (!required.empty()) return refuse("require " + *required.begin() + " without a schema");
    return keywords;
  }

  // An answer that may be text: calls begin after the marker, wherever it appears.
  void AddFreeText() {
    AddTextUntil("text", markers::kHermes, "calls", /*may_end=*/true);
    AddRule("calls", Quoted(frame_.before_name.substr(markers::kHermes.size())) + " call" +
                         (options_.several ? " text-0" : ""));
    if (options_.reasoning == ReasoningFormat::kNone) {
      AddRule("root", "text-0");
      return;
    }
    const ReasoningMarkers markers = MarkersOf(options_.reasoning);
    AddTextUntil("think", markers.end, "text-0", /*may_end=*/true);
    AddRule("root", must_think() ? "think-0"
                                 : "[ \\t\\r\\n]* " + Quoted(markers.begin) + " think-0 | text-0");
  }

  std::string ReasoningPart() {
    if (options_.reasoning == ReasoningFormat::kNone) return "";
    const ReasoningMarkers markers = MarkersOf(options_.reasoning);
    // A model ends its analysis by a special token alone, so the grammar leaves no room for one.
    if (options_.reasoning == ReasoningFormat::kHarmony) {
      return must_think() ? Quoted(std::string(markers.end) + "<|start|>assistant") + " " : "";
    }
    AddTextUntil("think", markers.end, "think-end", /*may_end=*/false);
    AddRule("think-end", "\"\\n\"{0,2}");
    return must_think() ? "think-0 " : "(" + Quoted(markers.begin) + " think-0)? ";
  }

  bool must_think() const {
    return options_.opens_reasoning || options_.reasoning == ReasoningFormat::kDeepSeekR1;
  }

  // Writes the rules `name`-0 and so on: any text up to the first `marker`, then `after`. In
  // `name`-n the first n bytes of the marker have been read; it is ASCII, and its first byte occurs
  // in it only once. `may_end`: the text may end before the marker.
  void AddTextUntil(const std::string& name, std::string_view marker, const std::string& after,
                    bool may_end) {
    const std::string first(1, marker[0]), begun = Quoted(first) + " " + name + "-1";
    AddRule(name + "-0", "[^" + InClass(first) + "]* (" + begun + ")" + (may_end ? "?" : ""));
    for (size_t n = 1; n < marker.size(); ++n) {
      const std::string next(1, marker[n]);
      const bool is_last = n + 1 == marker.size();
      AddRule(name + "-" + std::to_string(n),
              Quoted(next) + " " + (is_last ? after : name + "-" + std::to_string(n + 1)) + " | " +
                  begun + " | [^" + InClass(first + next) + "] " + name + "-0" +
                  (may_end ? " | \"\"" : ""));
    }
  }

  static std::string InClass(std::string_view bytes) {
    std::string set;
    for (const char c : bytes) {
      if (c == '[' || c == ']' || c == '\\' || c == '^' || c == '-') set += '\\';
      set += c;
    }
    return set;
  }

  const ToolGrammarOptions options_;
  const Frame frame_;
  size_t schema_bytes_ = 0;  // of the schemas of keywords
  bool has_any_object_ = false;
  GrammarSource source_;
  std::string calls_;
};

}  // namespace

// Other formats mark calls by special tokens, which grammars do not allow, or not at all.
bool CanFollowFreeText(ToolFormat format) { return format == ToolFormat::kHermes; }

Result<GrammarSource> ToolGrammar(std::span<const ToolDescription> tools,
                                  const ToolGrammarOptions& options) {
  if (tools.empty()) return InvalidArgument("no tool may be called");
  if (options.format == ToolFormat::kNone) {
    return InvalidArgument("the model's format of tool calls is unknown");
  }
  Writer writer(options);
  for (const ToolDescription& tool : tools) OUTRIDER_TRY(writer.AddTool(tool));
  return writer.Finish();
}

}  // namespace outrider
