#include "common/text/jinja/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

#include "common/base/utf8_bytes.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

bool IsIn(std::span<const CodeRange> ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(), [code](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

utf8proc_category_t CategoryOf(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// Digits that are not decimal digits: superscripts and circled numbers. Unicode's Numeric_Type.
constexpr CodeRange kDigits[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
// Unicode's Other_Lowercase and Other_Uppercase.
constexpr CodeRange kOtherLower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},    {0x2E0, 0x2E4},
    {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},  {0x1D9B, 0x1DBF},
    {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2170, 0x217F},  {0x24D0, 0x24E9},
    {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},  {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}};
constexpr CodeRange kOtherUpper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

// Unicode's SpecialCasing.txt without its conditions: a character, its upper case and its title
// case, if these have several characters. utf8proc only has the simple mappings.
constexpr char8_t kSpecialCase[] =
    u8"\u00DF SS Ss \u0149 \u02BCN \u02BCN \u01F0 J\u030C J\u030C "
    u8"\u0390 \u0399\u0308\u0301 \u0399\u0308\u0301 \u03B0 \u03A5\u0308\u0301 \u03A5\u0308\u0301 "
    u8"\u0587 \u0535\u0552 \u0535\u0582 \u1E96 H\u0331 H\u0331 \u1E97 T\u0308 T\u0308 "
    u8"\u1E98 W\u030A W\u030A \u1E99 Y\u030A Y\u030A \u1E9A A\u02BE A\u02BE "
    u8"\u1F50 \u03A5\u0313 \u03A5\u0313 \u1F52 \u03A5\u0313\u0300 \u03A5\u0313\u0300 "
    u8"\u1F54 \u03A5\u0313\u0301 \u03A5\u0313\u0301 \u1F56 \u03A5\u0313\u0342 \u03A5\u0313\u0342 "
    u8"\u1F80 \u1F08\u0399 \u1F88 \u1F81 \u1F09\u0399 \u1F89 \u1F82 \u1F0A\u0399 \u1F8A "
    u8"\u1F83 \u1F0B\u0399 \u1F8B \u1F84 \u1F0C\u0399 \u1F8C \u1F85 \u1F0D\u0399 \u1F8D "
    u8"\u1F86 \u1F0E\u0399 \u1F8E \u1F87 \u1F0F\u0399 \u1F8F \u1F88 \u1F08\u0399 \u1F88 "
    u8"\u1F89 \u1F09\u0399 \u1F89 \u1F8A \u1F0A\u0399 \u1F8A \u1F8B \u1F0B\u0399 \u1F8B "
    u8"\u1F8C \u1F0C\u0399 \u1F8C \u1F8D \u1F0D\u0399 \u1F8D \u1F8E \u1F0E\u0399 \u1F8E "
    u8"\u1F8F \u1F0F\u0399 \u1F8F \u1F90 \u1F28\u0399 \u1F98 \u1F91 \u1F29\u0399 \u1F99 "
    u8"\u1F92 \u1F2A\u0399 \u1F9A \u1F93 \u1F2B\u0399 \u1F9B \u1F94 \u1F2C\u0399 \u1F9C "
    u8"\u1F95 \u1F2D\u0399 \u1F9D \u1F96 \u1F2E\u0399 \u1F9E \u1F97 \u1F2F\u0399 \u1F9F "
    u8"\u1F98 \u1F28\u0399 \u1F98 \u1F99 \u1F29\u0399 \u1F99 \u1F9A \u1F2A\u0399 \u1F9A "
    u8"\u1F9B \u1F2B\u0399 \u1F9B \u1F9C \u1F2C\u0399 \u1F9C \u1F9D \u1F2D\u0399 \u1F9D "
    u8"\u1F9E \u1F2E\u0399 \u1F9E \u1F9F \u1F2F\u0399 \u1F9F \u1FA0 \u1F68\u0399 \u1FA8 "
    u8"\u1FA1 \u1F69\u0399 \u1FA9 \u1FA2 \u1F6A\u0399 \u1FAA \u1FA3 \u1F6B\u0399 \u1FAB "
    u8"\u1FA4 \u1F6C\u0399 \u1FAC \u1FA5 \u1F6D\u0399 \u1FAD \u1FA6 \u1F6E\u0399 \u1FAE "
    u8"\u1FA7 \u1F6F\u0399 \u1FAF \u1FA8 \u1F68\u0399 \u1FA8 \u1FA9 \u1F69\u0399 \u1FA9 "
    u8"\u1FAA \u1F6A\u0399 \u1FAA \u1FAB \u1F6B\u0399 \u1FAB \u1FAC \u1F6C\u0399 \u1FAC "
    u8"\u1FAD \u1F6D\u0399 \u1FAD \u1FAE \u1F6E\u0399 \u1FAE \u1FAF \u1F6F\u0399 \u1FAF "
    u8"\u1FB2 \u1FBA\u0399 \u1FBA\u0345 \u1FB3 \u0391\u0399 \u1FBC "
    u8"\u1FB4 \u0386\u0399 \u0386\u0345 \u1FB6 \u0391\u0342 \u0391\u0342 "
    u8"\u1FB7 \u0391\u0342\u0399 \u0391\u0342\u0345 \u1FBC \u0391\u0399 \u1FBC "
    u8"\u1FC2 \u1FCA\u0399 \u1FCA\u0345 \u1FC3 \u0397\u0399 \u1FCC "
    u8"\u1FC4 \u0389\u0399 \u0389\u0345 \u1FC6 \u0397\u0342 \u0397\u0342 "
    u8"\u1FC7 \u0397\u0342\u0399 \u0397\u0342\u0345 \u1FCC \u0397\u0399 \u1FCC "
    u8"\u1FD2 \u0399\u0308\u0300 \u0399\u0308\u0300 \u1FD3 \u0399\u0308\u0301 \u0399\u0308\u0301 "
    u8"\u1FD6 \u0399\u0342 \u0399\u0342 \u1FD7 \u0399\u0308\u0342 \u0399\u0308\u0342 "
    u8"\u1FE2 \u03A5\u0308\u0300 \u03A5\u0308\u0300 \u1FE3 \u03A5\u0308\u0301 \u03A5\u0308\u0301 "
    u8"\u1FE4 \u03A1\u0313 \u03A1\u0313 \u1FE6 \u03A5\u0342 \u03A5\u0342 "
    u8"\u1FE7 \u03A5\u0308\u0342 \u03A5\u0308\u0342 \u1FF2 \u1FFA\u0399 \u1FFA\u0345 "
    u8"\u1FF3 \u03A9\u0399 \u1FFC \u1FF4 \u038F\u0399 \u038F\u0345 "
    u8"\u1FF6 \u03A9\u0342 \u03A9\u0342 \u1FF7 \u03A9\u0342\u0399 \u03A9\u0342\u0345 "
    u8"\u1FFC \u03A9\u0399 \u1FFC \uFB00 FF Ff \uFB01 FI Fi \uFB02 FL Fl \uFB03 FFI Ffi "
    u8"\uFB04 FFL Ffl \uFB05 ST St \uFB06 ST St \uFB13 \u0544\u0546 \u0544\u0576 "
    u8"\uFB14 \u0544\u0535 \u0544\u0565 \uFB15 \u0544\u053B \u0544\u056B "
    u8"\uFB16 \u054E\u0546 \u054E\u0576 \uFB17 \u0544\u053D \u0544\u056D";

struct SpecialCase {
  std::string_view upper;
  std::string_view title;
};

const SpecialCase* FindSpecialCase(char32_t code) {
  static const auto* const kTable = [] {
    auto* const table = new std::unordered_map<char32_t, SpecialCase>();
    std::string_view rest(reinterpret_cast<const char*>(kSpecialCase), sizeof(kSpecialCase) - 1);
    const auto next = [&rest] {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view word = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      return word;
    };
    while (!rest.empty()) {
      const char32_t character = FirstCharacter(next()).code;
      const std::string_view upper = next();
      table->emplace(character, SpecialCase{upper, next()});
    }
    return table;
  }();
  const auto found = kTable->find(code);
  return found == kTable->end() ? nullptr : &found->second;
}

void AppendUpper(char32_t code, std::string& out) {
  if (const SpecialCase* special = FindSpecialCase(code)) {
    out += special->upper;
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))), out);
  }
}

void AppendTitle(char32_t code, std::string& out) {
  if (const SpecialCase* special = FindSpecialCase(code)) {
    out += special->title;
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))), out);
  }
}

bool IsCased(char32_t code) { return IsLower(code) || IsUpper(code) || IsTitleCase(code); }

bool IsCaseIgnorable(char32_t code) {
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: break;
  }
  constexpr CodeRange kMidWord[] = {{'\'', '\''},     {'.', '.'},       {':', ':'},
                                    {0xB7, 0xB7},     {0x2018, 0x2019}, {0x2024, 0x2024},
                                    {0x2027, 0x2027}, {0xFF0E, 0xFF0E}};
  return IsIn(kMidWord, code);
}

// A capital sigma is final if a cased letter precedes it and none follows.
bool IsFinalSigma(std::string_view before, std::string_view after) {
  while (!before.empty() && IsCaseIgnorable(LastCharacter(before).code)) {
    before.remove_suffix(LastCharacter(before).size);
  }
  if (before.empty() || !IsCased(LastCharacter(before).code)) return false;
  while (!after.empty() && IsCaseIgnorable(FirstCharacter(after).code)) {
    after.remove_prefix(FirstCharacter(after).size);
  }
  return after.empty() || !IsCased(FirstCharacter(after).code);
}

// Appends the lower case of the character at `pos` of `text`.
void AppendLower(std::string_view text, size_t pos, std::string& out) {
  const Utf8Character character = FirstCharacter(text.substr(pos));
  constexpr char32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;
  constexpr char32_t kCapitalDottedI = 0x130, kDotAbove = 0x307;
  if (character.code == kCapitalSigma) {
    const bool last = IsFinalSigma(text.substr(0, pos), text.substr(pos + character.size));
    AppendUtf8(last ? kFinalSigma : kSigma, out);
  } else if (character.code == kCapitalDottedI) {
    AppendUtf8('i', out);
    AppendUtf8(kDotAbove, out);
  } else {
    AppendUtf8(
        static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code))),
        out);
  }
}

std::string_view Stripped(std::string_view text) {
  while (!text.empty() && IsSpace(FirstCharacter(text).code)) {
    text.remove_prefix(FirstCharacter(text).size);
  }
  while (!text.empty() && IsSpace(LastCharacter(text).code)) {
    text.remove_suffix(LastCharacter(text).size);
  }
  return text;
}

// The digits of a number without the underscores that Python allows between two digits; nullopt if
// one is elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_digit = [&](size_t pos) {
      return pos < text.size() && std::isxdigit(static_cast<unsigned char>(text[pos])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return out;
}

// 0x, 0o or 0b before the digits, in either case; 0 for none.
int BaseOfPrefix(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  switch (digits[1] | 0x20) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 0;
  }
}

}  // namespace

bool IsSpace(char32_t code) {
  if (code < 0x80) return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20);
  constexpr CodeRange kSpaces[] = {{0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                   {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                   {0x205F, 0x205F}, {0x3000, 0x3000}};
  return IsIn(kSpaces, code);
}

bool IsDecimal(char32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(char32_t code) {
  return CategoryOf(code) == UTF8PROC_CATEGORY_ND || IsIn(kDigits, code);
}

bool IsAlpha(char32_t code) {
  const utf8proc_category_t category = CategoryOf(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsAlnum(char32_t code) {
  const utf8proc_category_t category = CategoryOf(code);
  return IsAlpha(code) || (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

bool IsLower(char32_t code) {
  return CategoryOf(code) == UTF8PROC_CATEGORY_LL || (code > 0x7F && IsIn(kOtherLower, code));
}

bool IsUpper(char32_t code) {
  return CategoryOf(code) == UTF8PROC_CATEGORY_LU || (code > 0x7F && IsIn(kOtherUpper, code));
}

bool IsTitleCase(char32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_LT; }

bool IsPrintable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

size_t ByteOfCharacter(std::string_view text, size_t index) {
  size_t pos = 0;
  for (; index > 0; --index) {
    for (++pos; pos < text.size() && IsContinuationByte(text[pos]); ++pos) {
    }
  }
  return pos;
}

std::string Upper(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Character character = FirstCharacter(text.substr(pos));
    AppendUpper(character.code, out);
    pos += character.size;
  }
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size(); pos += FirstCharacter(text.substr(pos)).size) {
    AppendLower(text, pos, out);
  }
  return out;
}

std::string Title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Character character = FirstCharacter(text.substr(pos));
    if (in_word) {
      AppendLower(text, pos, out);
    } else {
      AppendTitle(character.code, out);
    }
    in_word = IsCased(character.code);
    pos += character.size;
  }
  return out;
}

std::string Capitalized(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Character character = FirstCharacter(text.substr(pos));
    if (pos == 0) {
      AppendTitle(character.code, out);
    } else {
      AppendLower(text, pos, out);
    }
    pos += character.size;
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Character character = FirstCharacter(text.substr(pos));
    if (IsUpper(character.code)) {
      AppendLower(text, pos, out);
    } else if (IsLower(character.code)) {
      AppendUpper(character.code, out);
    } else {
      AppendUtf8(character.code, out);
    }
    pos += character.size;
  }
  return out;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  char* const end =
      std::to_chars(buffer, std::end(buffer) - 1, value, std::chars_format::scientific).ptr;
  *end = '\0';
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  const size_t e = shortest.find('e');
  const int exponent = std::atoi(buffer + e + 1);
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = value < 0 || std::signbit(value) ? "-" : "";
  // CPython's rule for repr: an exponent from 1e16 on and below 1e-4.
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    std::snprintf(buffer, sizeof(buffer), "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return out + buffer;
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void AppendRepr(char32_t code, char quote, std::string& out) {
  char buffer[16];
  if (code == static_cast<char32_t>(quote) || code == '\\') {
    out += '\\';
    out += static_cast<char>(code);
  } else if (code == '\n') {
    out += "\\n";
  } else if (code == '\r') {
    out += "\\r";
  } else if (code == '\t') {
    out += "\\t";
  } else if (IsPrintable(code)) {
    AppendUtf8(code, out);
  } else {
    const char* const format = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
    std::snprintf(buffer, sizeof(buffer), format, static_cast<unsigned>(code));
    out += buffer;
  }
}

char ReprQuote(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  return has_single && text.find('"') == text.npos ? '"' : '\'';
}

std::optional<int64_t> ParseInt(std::string_view text, int base, bool* too_large) {
  *too_large = false;
  text = Stripped(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix = BaseOfPrefix(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  const auto digits = WithoutUnderscores(text);
  if (!digits.has_value() || digits->empty()) return std::nullopt;
  if (base == 0) {
    base = 10;
    const bool zeros = digits->find_first_not_of('0') == std::string::npos;
    if (digits->front() == '0' && !zeros) return std::nullopt;  // "012" is not a Python literal
  }
  uint64_t value = 0;
  const char* const end = digits->data() + digits->size();
  const auto parsed = std::from_chars(digits->data(), end, value, base);
  if (parsed.ptr != end) return std::nullopt;
  const uint64_t limit = uint64_t{INT64_MAX} + (negative ? 1 : 0);
  if (parsed.ec == std::errc::result_out_of_range || value > limit) {
    *too_large = true;
    return std::nullopt;
  }
  return negative ? static_cast<int64_t>(0 - value) : static_cast<int64_t>(value);
}

std::optional<double> ParseFloat(std::string_view text) {
  text = Stripped(text);
  const auto plain = WithoutUnderscores(text);
  if (!plain.has_value() || plain->empty()) return std::nullopt;
  std::string_view rest = *plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const std::string word = Lower(rest);
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (rest.find_first_not_of("0123456789.eE+-") != rest.npos) return std::nullopt;
    char* end = nullptr;
    const std::string digits(rest);
    if (digits.empty() || digits.front() == '+' || digits.front() == '-') return std::nullopt;
    value = std::strtod(digits.c_str(), &end);
    if (*end != '\0') return std::nullopt;
  }
  return negative ? -value : value;
}

std::vector<Line> SplitLines(std::string_view text) {
  constexpr CodeRange kLineEnds[] = {
      {'\n', '\r'}, {0x1C, 0x1E}, {0x85, 0x85}, {0x2028, 0x2029}};  // \n \v \f \r ..
  std::vector<Line> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Character character = FirstCharacter(text.substr(pos));
    size_t next = pos + character.size;
    if (IsIn(kLineEnds, character.code)) {
      if (character.code == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back({begin, pos, next});
      begin = next;
    }
    pos = next;
  }
  if (begin < text.size()) lines.push_back({begin, text.size(), text.size()});
  return lines;
}

}  // namespace outrider::jinja
