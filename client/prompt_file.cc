#include "client/prompt_file.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/input_file.h"

namespace outrider {
namespace {

Result<BenchPrompt> ParseLine(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument("not a JSON object");
  BenchPrompt prompt;
  const auto text = json.find("prompt");
  if (text == json.end() || !text->is_string()) {
    return InvalidArgument("\"prompt\" is missing or not a string");
  }
  prompt.prompt = text->get<std::string>();
  if (const auto domain = json.find("domain"); domain != json.end()) {
    if (!domain->is_string()) return InvalidArgument("\"domain\" is not a string");
    prompt.domain = domain->get<std::string>();
  }
  if (const auto limit = json.find("max_tokens"); limit != json.end()) {
    if (!limit->is_number_unsigned() ||
        limit->get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return InvalidArgument("\"max_tokens\" is no token count");
    }
    prompt.max_tokens = limit->get<uint32_t>();
  }
  return prompt;
}

}  // namespace

Result<std::vector<BenchPrompt>> ParsePrompts(std::string_view text, const std::string& name) {
  std::vector<BenchPrompt> prompts;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto prompt = ParseLine(line);
    if (!prompt.ok()) return prompt.status().Annotate(name + ":" + std::to_string(number));
    prompts.push_back(std::move(prompt).value());
  }
  if (prompts.empty()) return InvalidArgument(name + ": no prompt in it");
  return prompts;
}

Result<std::vector<BenchPrompt>> ReadPrompts(const std::string& path) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(path, kMaxPromptFileBytes, InputKind::kAny));
  return ParsePrompts(text, path);
}

}  // namespace outrider
