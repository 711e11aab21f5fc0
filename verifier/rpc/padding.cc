#include "verifier/rpc/padding.h"

#include <google/protobuf/io/coded_stream.h>

#include <string>

namespace outrider {
namespace {

// Size of a field with `content` bytes, including its tag and length.
size_t FieldSize(size_t content) {
  constexpr size_t kTag = 1;
  return kTag + google::protobuf::io::CodedOutputStream::VarintSize64(content) + content;
}

}  // namespace

void Pad(int multiple, v1::GenerateResponse* response) {
  if (multiple <= 0) return;
  const auto unit = static_cast<size_t>(multiple);
  const size_t over = response->ByteSizeLong() % unit;
  if (over == 0) return;
  for (size_t missing = unit - over;; missing += unit) {
    // No field has certain sizes: below 3 bytes, and where the length takes another byte.
    for (size_t content = missing > 12 ? missing - 12 : 1; content < missing; ++content) {
      if (FieldSize(content) != missing) continue;
      response->set_padding(std::string(content, '\0'));
      return;
    }
  }
}

}  // namespace outrider
