#include "common/text/detokenizer.h"

#include <string_view>

namespace outrider {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special, bool starts_text)
    : tokenizer_(tokenizer),
      skip_special_(skip_special),
      strip_space_(starts_text && tokenizer.strips_leading_space()) {}

std::string Detokenizer::Push(TokenId id, bool is_shown) {
  std::string out;
  if (skip_special_ && !is_shown && tokenizer_.IsSpecial(id)) return out;
  std::string_view bytes = tokenizer_.TokenBytes(id);
  if (bytes.empty()) return out;
  if (strip_space_ && bytes.starts_with(' ')) bytes.remove_prefix(1);
  strip_space_ = false;
  stream_.Push(bytes, out);
  return out;
}

std::string Detokenizer::Finish() {
  std::string out;
  stream_.Finish(out);
  return out;
}

}  // namespace outrider
