#include "common/text/normalizer.h"

#include <utility>

#include "common/text/unicode.h"

namespace outrider {
namespace {

// 4 MiB of spaces as U+2581 take 12.
constexpr size_t kMaxNormalizedBytes = 16 << 20;

Result<std::string> ReplaceAll(const std::string& text, const Pattern& pattern,
                               const std::string& content) {
  OUTRIDER_ASSIGN(const std::vector<TextSpan> matches, pattern.FindAll(text));
  std::string out;
  size_t done = 0;
  for (const TextSpan& match : matches) {
    out.append(text, done, match.begin - done);
    out += content;
    done = match.end;
    if (out.size() > kMaxNormalizedBytes) break;
  }
  out.append(text, done);
  return out;
}

}  // namespace

Result<Normalizer> Normalizer::Create(const std::vector<NormalizerStep>& steps) {
  Normalizer normalizer;
  for (const NormalizerStep& step : steps) {
    if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
      OUTRIDER_ASSIGN(Pattern pattern, Pattern::Create(replace->pattern));
      normalizer.steps_.emplace_back(Replace{std::move(pattern), replace->content});
    } else if (const auto* prepend = std::get_if<PrependStep>(&step)) {
      normalizer.steps_.emplace_back(*prepend);
    } else {
      normalizer.steps_.emplace_back(NfcStep{});
    }
  }
  return normalizer;
}

Result<std::string> Normalizer::Normalize(std::string_view text) const {
  std::string out(text);
  for (const auto& step : steps_) {
    if (out.empty()) break;
    if (const auto* replace = std::get_if<Replace>(&step)) {
      OUTRIDER_ASSIGN(out, ReplaceAll(out, replace->pattern, replace->content));
    } else if (const auto* prepend = std::get_if<PrependStep>(&step)) {
      out.insert(0, prepend->content);
    } else {
      out = ToNfc(out);
    }
    if (out.size() > kMaxNormalizedBytes) {
      return InvalidArgument("the normalized text has more than " +
                             std::to_string(kMaxNormalizedBytes) + " bytes; shorten it");
    }
  }
  return out;
}

}  // namespace outrider
