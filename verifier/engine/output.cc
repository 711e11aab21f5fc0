#include "verifier/engine/output.h"

#include <algorithm>
#include <utility>

namespace outrider {

void HiddenText::Push(size_t bytes, bool hidden) {
  if (hidden && bytes > 0) spans_.push_back({seen_, seen_ + bytes});
  seen_ += bytes;
}

std::string HiddenText::Shown(std::string_view text) {
  std::string shown;
  const size_t end = given_ + text.size();
  while (given_ < end) {
    const bool hides = !spans_.empty() && spans_.front().begin <= given_;
    const size_t until = hides            ? std::min(end, spans_.front().end)
                         : spans_.empty() ? end
                                          : std::min(end, spans_.front().begin);
    const size_t bytes = until - given_;
    if (!hides) shown += text.substr(0, bytes);
    text.remove_prefix(bytes);
    given_ = until;
    if (hides && spans_.front().end == given_) spans_.pop_front();
  }
  return shown;
}

OutputStream::OutputStream(const Tokenizer& tokenizer, OutputOptions options)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      detokenizer_(tokenizer, options_.skip_special && !options_.match_special,
                   /*starts_text=*/false),
      stops_(options_.stop_strings) {
  std::sort(options_.stop_tokens.begin(), options_.stop_tokens.end());
  std::sort(options_.shown_special.begin(), options_.shown_special.end());
}

std::string OutputStream::TextOf(TokenId token) {
  const std::vector<TokenId>& shown = options_.shown_special;
  const bool is_shown = std::binary_search(shown.begin(), shown.end(), token);
  std::string text = detokenizer_.Push(token, is_shown);
  // A special token's text comes as a whole, perhaps after the end of an incomplete character.
  const bool hidden = options_.skip_special && !is_shown && tokenizer_.IsSpecial(token);
  const size_t bytes = hidden ? std::min(text.size(), tokenizer_.TokenBytes(token).size()) : 0;
  hidden_.Push(text.size() - bytes, false);
  hidden_.Push(bytes, true);
  return text;
}

void OutputStream::Show(const StopMatcher::Step& step, std::string* text) {
  *text += hidden_.Shown(step.text);
  if (options_.include_stop) *text += hidden_.Shown(step.stop);
}

std::optional<FinishReason> OutputStream::Push(TokenId token, std::string* text) {
  ++count_;
  const bool stop_token =
      std::binary_search(options_.stop_tokens.begin(), options_.stop_tokens.end(), token);
  const bool may_stop = count_ > options_.min_tokens;
  const bool ends = stop_token && may_stop;
  // A stop token is counted and reported by id; its text is only added if the request includes it.
  if (!stop_token || (ends && options_.include_stop)) {
    const StopMatcher::Step step = stops_.Push(TextOf(token), may_stop);
    Show(step, text);
    if (step.stopped) return FinishReason::kStop;
  }
  if (!ends && count_ < options_.max_tokens) return std::nullopt;
  const std::string tail = options_.follows_grammar ? "" : detokenizer_.Finish();
  hidden_.Push(tail.size(), false);
  const StopMatcher::Step rest = stops_.Push(tail, may_stop);
  Show(rest, text);
  if (rest.stopped) return FinishReason::kStop;
  *text += hidden_.Shown(stops_.Finish());
  return ends ? FinishReason::kStop : FinishReason::kLength;
}

}  // namespace outrider
