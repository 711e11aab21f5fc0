#include "verifier/http/text_offsets.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "common/text/utf8.h"

namespace outrider {

TextOffsets::TextOffsets(const Tokenizer& tokenizer, bool starts_text, int64_t begin)
    : tokenizer_(&tokenizer),
      strip_space_(starts_text && tokenizer.strips_leading_space()),
      complete_(begin) {}

int64_t TextOffsets::Push(TokenId id, bool is_text) {
  std::string_view own = is_text ? tokenizer_->TokenBytes(id) : std::string_view();
  if (own.empty()) return complete_;
  if (strip_space_ && own.starts_with(' ')) own.remove_prefix(1);
  strip_space_ = false;
  const std::string bytes = std::exchange(pending_, {}).append(own);
  const size_t first = bytes.size() - own.size();  // of the token's own
  int64_t offset = complete_;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const size_t pos = bytes.size() - rest.size();
    if (pos <= first) offset = complete_;
    const Utf8Sequence sequence = ScanUtf8(rest);
    if (sequence.kind == Utf8Kind::kTruncated) {
      pending_ = rest;
      break;
    }
    ++complete_;
    rest.remove_prefix(sequence.size);
  }
  return offset;
}

}  // namespace outrider
