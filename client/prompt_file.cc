#include "client/prompt_file.h"

#include <limits>

#include "common/base/input_file.h"
#include "common/json/json.h"

namespace outrider {
namespace {

Result<BenchPrompt> ParseLine(std::string_view line) {
  OUTRIDER_ASSIGN(const JsonValue json,
                  ParseJsonObject(line, "the line", {.repeated_members = true}));
  BenchPrompt prompt;
  OUTRIDER_ASSIGN(prompt.prompt, json["prompt"].String());
  if (const JsonValue domain = json["domain"]; !domain.absent()) {
    OUTRIDER_ASSIGN(prompt.domain, domain.String());
  }
  if (const JsonValue limit = json["max_tokens"]; !limit.absent()) {
    OUTRIDER_ASSIGN(const int64_t tokens, limit.Int64(0, std::numeric_limits<uint32_t>::max()));
    prompt.max_tokens = static_cast<uint32_t>(tokens);
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
