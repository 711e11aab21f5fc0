#include "common/base/escape_text.h"

#include <cstdint>
#include <cstdio>

#include "common/base/utf8_bytes.h"

namespace outrider {
namespace {

struct CodePoint {
  uint32_t value = 0xFFFD;  // replaces a byte of invalid UTF-8
  size_t bytes = 1;
  bool valid = false;
};

// The first code point of `text`, which is not empty.
CodePoint FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {.value = lead, .valid = true};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t value = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuationByte(text[i])) return {};
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (surrogate || overlong || value > 0x10FFFF) return {};
  return {.value = value, .bytes = bytes, .valid = true};
}

// Whether a terminal or a line reader would treat it specially: C0, DEL, C1, Unicode's line and
// paragraph separators, and what turns the direction of text.
bool IsControl(uint32_t c) {
  const bool turns =
      c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 || turns;
}

// One code point as it appears in a line.
std::string EscapedPoint(const CodePoint& c, std::string_view bytes) {
  if (c.value == '"' || c.value == '\\') return {'\\', static_cast<char>(c.value)};
  if (c.valid && !IsControl(c.value)) return std::string(bytes);
  char hex[8];
  std::snprintf(hex, sizeof hex, "\\u%04x", c.value & 0xFFFFu);
  return hex;
}

}  // namespace

std::string EscapeText(std::string_view text, size_t longest) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = FirstOf(text);
    const std::string next = EscapedPoint(c, text.substr(0, c.bytes));
    if (out.size() + next.size() > longest) return out + "...";
    out += next;
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace outrider
