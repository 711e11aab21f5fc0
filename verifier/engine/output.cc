#include "verifier/engine/output.h"

#include <algorithm>
#include <utility>

namespace outrider {

OutputStream::OutputStream(const Tokenizer& tokenizer, OutputOptions options)
    : options_(std::move(options)),
      detokenizer_(tokenizer, /*skip_special=*/true, /*starts_text=*/false),
      stops_(options_.stop_strings) {
  std::sort(options_.stop_tokens.begin(), options_.stop_tokens.end());
}

std::optional<FinishReason> OutputStream::Push(TokenId token, std::string* text) {
  ++count_;
  const bool stop_token =
      std::binary_search(options_.stop_tokens.begin(), options_.stop_tokens.end(), token);
  const bool may_stop = count_ > options_.min_tokens;
  // A stop token is counted and reported by id, but is not part of the text.
  if (!stop_token || !may_stop) {
    StopMatcher::Step step = stops_.Push(stop_token ? "" : detokenizer_.Push(token), may_stop);
    *text += step.text;
    if (step.stopped) return FinishReason::kStop;
    if (count_ < options_.max_tokens) return std::nullopt;
  }
  StopMatcher::Step rest = stops_.Push(detokenizer_.Finish(), may_stop);
  *text += rest.text;
  if (rest.stopped) return FinishReason::kStop;
  *text += stops_.Finish();
  return stop_token && may_stop ? FinishReason::kStop : FinishReason::kLength;
}

}  // namespace outrider
