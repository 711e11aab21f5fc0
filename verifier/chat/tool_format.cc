#include "verifier/chat/tool_format.h"

#include "verifier/chat/format_names.h"
#include "verifier/chat/markers.h"

namespace outrider {
namespace {

constexpr NamedFormat<ToolFormat> kToolFormats[] = {
    {"none", ToolFormat::kNone},
    {"hermes", ToolFormat::kHermes},
    {"llama3_json", ToolFormat::kLlama3Json},
    {"pythonic", ToolFormat::kPythonic},
    {"mistral", ToolFormat::kMistral},
    {"deepseek_v3", ToolFormat::kDeepSeekV3},
    {"deepseek_v31", ToolFormat::kDeepSeekV31},
    {"openai", ToolFormat::kHarmony},
};

}  // namespace

std::string_view NameOf(ToolFormat format) { return NameIn(kToolFormats, format); }

ToolFormat ToolFormatOf(std::string_view name) { return FormatIn(kToolFormats, name); }

std::vector<std::string> ToolFormatNames() { return NamesIn(kToolFormats); }

ToolFormat DetectToolFormat(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  if (markers::ShowsHarmony(chat_template)) return ToolFormat::kHarmony;
  if (has(markers::kDeepSeekCall)) {
    return has("```json") ? ToolFormat::kDeepSeekV3 : ToolFormat::kDeepSeekV31;
  }
  if (has(markers::kMistral)) return ToolFormat::kMistral;
  // Other models put something other than JSON between the same tags.
  const bool is_xml = has("<arg_key>") || has("<function=");
  if (has(markers::kHermes)) return is_xml ? ToolFormat::kNone : ToolFormat::kHermes;
  // The instructions in such templates begin their example of a call like this.
  if (has("[func_name1(") || has("[func_name(")) return ToolFormat::kPythonic;
  // Llama 3's role of tool results, and its name for arguments.
  if (has("ipython") && has("\"parameters\"")) return ToolFormat::kLlama3Json;
  return ToolFormat::kNone;
}

std::vector<std::string_view> MarkersOf(ToolFormat format) {
  using namespace markers;
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kPythonic: return {};
    case ToolFormat::kHermes: return {kHermes, kHermesEnd};
    case ToolFormat::kLlama3Json: return {kLlama3};
    case ToolFormat::kMistral: return {kMistral, kMistralArguments, kMistralId};
    case ToolFormat::kDeepSeekV3:
    case ToolFormat::kDeepSeekV31:
      return {kDeepSeekCalls, kDeepSeekCallsEnd, kDeepSeekCall, kDeepSeekCallEnd, kDeepSeekName};
    case ToolFormat::kHarmony: return kHarmony;
  }
  return {};
}

}  // namespace outrider
