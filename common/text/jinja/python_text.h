// Text as Python's str treats it: positions are characters (code points), and character classes and
// case mappings are those of CPython. All texts are well-formed UTF-8; positions here are bytes
// unless their name says characters.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outrider::jinja {

bool IsSpace(char32_t code);    // str.isspace, which strip() and split() use
bool IsDecimal(char32_t code);  // str.isdecimal
bool IsDigit(char32_t code);    // str.isdigit, including superscripts
bool IsAlpha(char32_t code);
bool IsAlnum(char32_t code);
bool IsLower(char32_t code);
bool IsUpper(char32_t code);
bool IsTitleCase(char32_t code);
bool IsPrintable(char32_t code);

// The byte at which character `index` begins; text.size() for the one after the last.
// REQUIRES: index <= CountCharacters(text).
size_t ByteOfCharacter(std::string_view text, size_t index);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Title(std::string_view text);
// The first character in title case, the others in lower case.
std::string Capitalized(std::string_view text);
std::string SwapCase(std::string_view text);

// repr(): the shortest digits that read back as the same number; 1.0, 1e+16, inf, nan.
std::string FloatText(double value);
// repr() of one character within quotes of the kind `quote`.
void AppendRepr(char32_t code, char quote, std::string& out);
// The quote that repr() of `text` uses.
char ReprQuote(std::string_view text);

// int(text, base) and float(text), for base 0 or 2 to 36. nullopt: it is not a number. `too_large`:
// it is one, but does not fit in 64 bits.
std::optional<int64_t> ParseInt(std::string_view text, int base, bool* too_large);
std::optional<double> ParseFloat(std::string_view text);

// The lines of str.splitlines(), as [begin, end) without line ends.
struct Line {
  size_t begin;
  size_t end;
  size_t next;  // after the line's end
};
std::vector<Line> SplitLines(std::string_view text);

}  // namespace outrider::jinja
