#include "common/text/normalizer.h"

#include <utility>

#include "common/text/rewriting.h"
#include "common/text/unicode.h"

namespace outrider {
namespace {

// 4 MiB of spaces take 12 MiB as U+2581.
constexpr size_t kMaxNormalizedBytes = 16 << 20;

Result<std::string> ReplaceAll(const std::string& text, const Pattern& pattern,
                               const std::string& content, MatchBudget* budget) {
  OUTRIDER_ASSIGN(const std::vector<TextSpan> matches, pattern.FindAll(text, budget));
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

struct Normalizer::Apply {
  std::string text;
  MatchBudget* budget;

  Result<std::string> operator()(const UnicodeFormStep& step) const {
    return ToUnicodeForm(text, step.form);
  }
  Result<std::string> operator()(const PrependStep& step) const { return step.content + text; }
  Result<std::string> operator()(const Replace& step) const {
    return ReplaceAll(text, step.pattern, step.content, budget);
  }
  Result<std::string> operator()(const LowercaseStep&) const { return ToLowerCase(text); }
  Result<std::string> operator()(const StripAccentsStep&) const {
    return WithoutMarks(text, /*nonspacing_alone=*/false);
  }
  Result<std::string> operator()(const StripStep& step) const {
    return WithoutOuterSpace(text, step.left, step.right);
  }
  Result<std::string> operator()(const NmtStep&) const { return AfterNmt(text); }
  Result<std::string> operator()(const BertStep& step) const { return AfterBert(text, step); }
  Result<std::string> operator()(const CharacterMap& map) const {
    return map.Rewrite(text, kMaxNormalizedBytes);
  }
};

Result<Normalizer::Step> Normalizer::MakeStep(const NormalizerStep& step) {
  if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
    OUTRIDER_ASSIGN(Pattern pattern, Pattern::Create(replace->pattern));
    return Step(Replace{std::move(pattern), replace->content});
  }
  if (const auto* precompiled = std::get_if<PrecompiledStep>(&step)) {
    OUTRIDER_ASSIGN(CharacterMap map, CharacterMap::Parse(precompiled->map));
    return Step(std::move(map));
  }
  if (const auto* form = std::get_if<UnicodeFormStep>(&step)) return Step(*form);
  if (const auto* prepend = std::get_if<PrependStep>(&step)) return Step(*prepend);
  if (const auto* strip = std::get_if<StripStep>(&step)) return Step(*strip);
  if (const auto* bert = std::get_if<BertStep>(&step)) return Step(*bert);
  if (std::holds_alternative<NmtStep>(step)) return Step(NmtStep{});
  if (std::holds_alternative<StripAccentsStep>(step)) return Step(StripAccentsStep{});
  return Step(LowercaseStep{});
}

Result<Normalizer> Normalizer::Create(const std::vector<NormalizerStep>& steps) {
  Normalizer normalizer;
  for (const NormalizerStep& step : steps) {
    OUTRIDER_ASSIGN(Step made, MakeStep(step));
    normalizer.steps_.push_back(std::move(made));
  }
  return normalizer;
}

Result<std::string> Normalizer::Normalize(std::string_view text, MatchBudget* budget) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (out.empty()) break;
    OUTRIDER_ASSIGN(out, std::visit(Apply{std::move(out), budget}, step));
    if (out.size() > kMaxNormalizedBytes) {
      return InvalidArgument("the normalized text has more than " +
                             std::to_string(kMaxNormalizedBytes) + " bytes; shorten it");
    }
  }
  return out;
}

}  // namespace outrider
