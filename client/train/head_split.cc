#include "client/train/head_split.h"

#include <algorithm>
#include <vector>

namespace outrider {
namespace {

constexpr std::ptrdiff_t kHeldOutEvery = 10;

}  // namespace

HeadSplit SplitByPrompt(const HeadData& data) {
  std::vector<uint64_t> prompts = data.prompts;
  std::sort(prompts.begin(), prompts.end());
  prompts.erase(std::unique(prompts.begin(), prompts.end()), prompts.end());
  HeadSplit split;
  split.training.width = split.held_out.width = data.header.width;
  const auto width = static_cast<std::ptrdiff_t>(data.header.width);
  auto hidden = data.hidden.begin();
  for (size_t i = 0; i < data.size(); ++i, hidden += width) {
    const auto place =
        std::lower_bound(prompts.begin(), prompts.end(), data.prompts[i]) - prompts.begin();
    HeadExamples& part = place % kHeldOutEvery == 0 ? split.held_out : split.training;
    part.labels.push_back(data.labels[i]);
    part.hidden.insert(part.hidden.end(), hidden, hidden + width);
  }
  return split;
}

}  // namespace outrider
