// The prompts of a benchmark: a file with one JSON object per line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct BenchPrompt {
  std::string prompt;
  std::string domain;  // "": none
  std::optional<uint32_t> max_tokens;
};

// Skips blank lines and ignores unknown keys. kInvalidArgument names `name` and the line; a file
// without a prompt is an error.
Result<std::vector<BenchPrompt>> ParsePrompts(std::string_view text, const std::string& name);
Result<std::vector<BenchPrompt>> ReadPrompts(const std::string& path);

}  // namespace outrider
