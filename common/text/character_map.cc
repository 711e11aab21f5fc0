#include "common/text/character_map.h"

#include <utf8proc.h>

#include <cstring>

#include "common/base/utf8_bytes.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

constexpr size_t kLongestCluster = 5;  // bytes

// Fields of a unit of the trie.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
uint32_t ValueOf(uint32_t unit) { return unit & 0x7fffffffu; }
uint32_t LabelOf(uint32_t unit) { return unit & 0x800000ffu; }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

// -1: not in the alphabet.
int ValueOfDigit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// The end of the extended grapheme cluster that begins at `begin`.
size_t EndOfCluster(std::string_view text, size_t begin) {
  utf8proc_int32_t state = 0;
  Utf8Character last = FirstCharacter(text.substr(begin));
  size_t end = begin + last.size;
  while (end < text.size()) {
    const Utf8Character next = FirstCharacter(text.substr(end));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    end += next.size;
    last = next;
  }
  return end;
}

}  // namespace

std::optional<std::string> FromBase64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = ValueOfDigit(c);
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

Result<CharacterMap> CharacterMap::Parse(std::string_view bytes) {
  uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() < sizeof size || size > bytes.size() - sizeof size || size == 0 ||
      size % sizeof(uint32_t) != 0) {
    return InvalidArgument("precompiled_charsmap: " + std::to_string(bytes.size()) +
                           " bytes with a trie of " + std::to_string(size));
  }
  CharacterMap map;
  map.units_.resize(size / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes.data() + sizeof size, size);
  map.texts_ = bytes.substr(sizeof size + size);
  if (FindInvalidUtf8(map.texts_).has_value()) {
    return InvalidArgument("precompiled_charsmap: texts that are not UTF-8");
  }
  return map;
}

std::optional<std::string_view> CharacterMap::Find(std::string_view text) const {
  uint32_t index = OffsetOf(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0) return std::nullopt;
    index ^= byte;
    if (index >= units_.size() || LabelOf(units_[index]) != byte) return std::nullopt;
    const uint32_t unit = units_[index];
    index ^= OffsetOf(unit);
    if (!HasLeaf(unit)) continue;
    if (index >= units_.size()) return std::nullopt;
    const size_t begin = ValueOf(units_[index]);
    if (begin >= texts_.size()) return std::nullopt;
    // A start within a character would not be valid UTF-8.
    if (IsContinuationByte(texts_[begin])) return std::nullopt;
    return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

std::string CharacterMap::Rewrite(std::string_view text, size_t max_bytes) const {
  std::string out;
  out.reserve(text.size());
  for (size_t begin = 0; begin < text.size() && out.size() <= max_bytes;) {
    const size_t end = EndOfCluster(text, begin);
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() <= kLongestCluster) {
      if (const auto found = Find(cluster); found.has_value()) {
        out += *found;
        continue;
      }
    }
    for (std::string_view rest = cluster; !rest.empty();) {
      const std::string_view character = rest.substr(0, FirstCharacter(rest).size);
      out += Find(character).value_or(character);
      rest.remove_prefix(character.size());
    }
  }
  return out;
}

}  // namespace outrider
