#include "common/text/utf8.h"

#include <cstdint>

#include "common/base/utf8_bytes.h"

namespace outrider {
namespace {

struct LeadByte {
  size_t size;  // 0: no character starts with this byte
  uint8_t second_low;
  uint8_t second_high;
};

LeadByte Classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // nothing beyond U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Sequence ScanUtf8(std::string_view text) {
  const LeadByte lead = Classify(static_cast<uint8_t>(text[0]));
  if (lead.size == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.size; ++i) {
    if (i == text.size()) return {Utf8Kind::kTruncated, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kComplete, lead.size};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Sequence sequence = ScanUtf8(text.substr(pos));
    if (sequence.kind != Utf8Kind::kComplete) return pos;
    pos += sequence.size;
  }
  return std::nullopt;
}

Utf8Character FirstCharacter(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t size = Classify(lead).size;
  if (size == 1) return {lead, 1};
  char32_t code = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
  return {code, size};
}

Utf8Character LastCharacter(std::string_view text) {
  size_t start = text.size() - 1;
  while (IsContinuationByte(text[start])) --start;
  return FirstCharacter(text.substr(start));
}

void AppendUtf8(char32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

void Utf8Stream::Push(std::string_view bytes, std::string& out) {
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Sequence sequence = ScanUtf8(rest);
    if (sequence.kind == Utf8Kind::kTruncated) break;
    out += sequence.kind == Utf8Kind::kComplete ? rest.substr(0, sequence.size)
                                                : kReplacementCharacter;
    rest.remove_prefix(sequence.size);
  }
  pending_.erase(0, pending_.size() - rest.size());
}

void Utf8Stream::Finish(std::string& out) {
  if (!pending_.empty()) out += kReplacementCharacter;
  pending_.clear();
}

}  // namespace outrider
