// Any tokenizer.model is rejected, or its tokens and scores are sound, and its table of
// replacements keeps any text well-formed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "common/text/character_map.h"
#include "common/text/sentence_piece_model.h"
#include "common/text/utf8.h"
#include "tests/fuzz/fuzz_input.h"

namespace outrider::fuzz {
namespace {

void CheckMap(const std::string& bytes) {
  const auto map = CharacterMap::Parse(bytes);
  if (!map.ok()) return;
  constexpr std::string_view kText =
      "ab\tA\u00a0B \uFF21\uFF22 \uFB01 e\u0301\u0301 \U0001F468\u200D\U0001F469 \u2028.";
  Require(!FindInvalidUtf8(map->Rewrite(kText, 1 << 20)).has_value());
}

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  const auto spec =
      ParseSentencePieceModel(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!spec.ok()) return 0;
  const bool is_unigram = spec->model == TokenModelKind::kUnigram;
  fuzz::Require(!is_unigram || spec->scores.size() == spec->vocabulary.size());
  fuzz::Require(spec->merges.size() <= 16 * spec->vocabulary.size());
  for (const NormalizerStep& step : spec->normalizer) {
    if (const auto* precompiled = std::get_if<PrecompiledStep>(&step)) {
      fuzz::CheckMap(precompiled->map);
    }
  }
  return 0;
}
