#include "verifier/chat/tool_format.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "verifier/chat/markers.h"

namespace outrider {
namespace {

struct NamedFormat {
  std::string_view name;
  ToolFormat format;
};

constexpr NamedFormat kFormats[] = {
    {"none", ToolFormat::kNone},
    {"hermes", ToolFormat::kHermes},
    {"llama3_json", ToolFormat::kLlama3Json},
    {"pythonic", ToolFormat::kPythonic},
    {"mistral", ToolFormat::kMistral},
    {"deepseek_v3", ToolFormat::kDeepSeekV3},
    {"deepseek_v31", ToolFormat::kDeepSeekV31},
};

}  // namespace

std::string_view NameOf(ToolFormat format) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats),
                   [&](const NamedFormat& named) { return named.format == format; });
  OUTRIDER_CHECK(found != std::end(kFormats));
  return found->name;
}

ToolFormat ToolFormatOf(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats),
                   [&](const NamedFormat& named) { return named.name == name; });
  OUTRIDER_CHECK(found != std::end(kFormats));
  return found->format;
}

std::vector<std::string> ToolFormatNames() {
  std::vector<std::string> names;
  for (const NamedFormat& named : kFormats) names.emplace_back(named.name);
  return names;
}

ToolFormat DetectToolFormat(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
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
  }
  return {};
}

}  // namespace outrider
