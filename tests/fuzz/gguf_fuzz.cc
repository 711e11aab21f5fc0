// For any bytes: GgufFile rejects them, or every tensor is within them, its values can be widened,
// and the config, the tokenizer and the chat template are rejected or read.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/gguf/gguf_file.h"
#include "common/model/architectures/gguf_config.h"
#include "common/model/gguf_tensors.h"
#include "common/text/chat_template.h"
#include "common/text/gguf_tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

namespace outrider::fuzz {
namespace {

void CheckTensors(const GgufFile& file, const uint8_t* data, size_t size) {
  size_t covered = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto* const begin = reinterpret_cast<const uint8_t*>(tensor.bytes.data());
    Require(begin >= data && begin + tensor.bytes.size() <= data + size);
    covered += tensor.bytes.size();
  }
  Require(covered <= size);
}

void CheckModel(const GgufFile& file) {
  const auto config = GgufConfigJson(file);
  const auto entries = GgufEntries(file);
  Require(entries.ok() || !config.ok());
  if (!entries.ok()) return;
  for (const GgufEntry& entry : *entries) {
    if (!CheckRows(entry).ok()) continue;
    // At most 8 bytes for each byte of the file: a 4-bit value becomes a float.
    Require(Widen(entry, Dtype::kF32).bytes.size() <= 8 * entry.tensor.bytes.size());
    QuantizedMatrix matrix;
    if (HasCodes(entry)) (void)AppendCodes(entry, &matrix);
  }
}

void CheckTexts(const GgufFile& file) {
  const auto spec = ReadGgufTokenizer(file);
  if (spec.ok()) {
    for (const TokenId id : spec->prompt_prefix) {
      Require(id >= 0 && static_cast<size_t>(id) < spec->vocabulary.size());
    }
  }
  (void)ReadGgufRoles(file);
  const auto chat = ReadGgufChat(file);
  if (chat.ok() && chat->general.has_value()) {
    (void)ChatTemplate::FromText(*chat->general, chat->special_tokens);
  }
}

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = outrider::GgufFile::Parse(bytes, "input");
  if (!file.ok()) return 0;
  outrider::fuzz::CheckTensors(*file, data, size);
  outrider::fuzz::CheckModel(*file);
  outrider::fuzz::CheckTexts(*file);
  return 0;
}
