#include "common/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace outrider {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    Pattern& pattern = patterns_.emplace_back();
    pattern.text = stop;
    pattern.borders.assign(2, 0);
    pattern.borders.reserve(stop.size() + 1);
    // A prefix ends with what the pattern matches of it from its second byte on.
    for (size_t i = 1; i < stop.size(); ++i) {
      Advance(&pattern, stop[i]);
      pattern.borders.push_back(static_cast<uint32_t>(pattern.matched));
    }
    pattern.matched = 0;
  }
}

bool StopMatcher::Advance(Pattern* pattern, char byte) {
  size_t& matched = pattern->matched;
  while (matched > 0 && pattern->text[matched] != byte) matched = pattern->borders[matched];
  if (pattern->text[matched] == byte) ++matched;
  if (matched < pattern->text.size()) return false;
  matched = pattern->borders[matched];
  return true;
}

StopMatcher::Step StopMatcher::Push(std::string_view text, bool may_stop) {
  if (stopped_) return {"", true};
  for (const char c : text) {
    held_ += c;
    size_t stop_size = 0;  // the longest one that ends here
    for (Pattern& pattern : patterns_) {
      if (Advance(&pattern, c)) stop_size = std::max(stop_size, pattern.text.size());
    }
    if (may_stop && stop_size > 0) {
      stopped_ = true;
      std::string stop = held_.substr(held_.size() - stop_size);
      held_.resize(held_.size() - stop_size);
      return {std::exchange(held_, {}), true, std::move(stop)};
    }
  }
  size_t matched = 0;
  for (const Pattern& pattern : patterns_) matched = std::max(matched, pattern.matched);
  const size_t safe = held_.size() - matched;
  Step step{held_.substr(0, safe), false};
  held_.erase(0, safe);
  return step;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace outrider
