// Decodes and encodes UTF-8, with the definitions of well-formedness and "maximal subpart" of the
// Unicode standard (section 3.9, table 3-7).
//
// Thread: any; Utf8Stream is not synchronised.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace outrider {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind {
  kComplete,   // one well-formed character
  kTruncated,  // the text ends within a character that is valid so far
  kInvalid,    // no continuation can make this well-formed
};

struct Utf8Sequence {
  Utf8Kind kind;
  size_t size;  // bytes, at least 1; kInvalid: those that one U+FFFD replaces
};

// The sequence with which `text` starts. REQUIRES: not empty.
Utf8Sequence ScanUtf8(std::string_view text);

// The offset of the first invalid byte; nullopt: the text is well-formed.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

struct Utf8Character {
  char32_t code;
  size_t size;  // bytes
};

// The first or the last character. REQUIRES: `text` is well-formed and not empty.
Utf8Character FirstCharacter(std::string_view text);
Utf8Character LastCharacter(std::string_view text);

void AppendUtf8(char32_t code, std::string& out);

// Takes bytes, split anywhere, and returns well-formed text. A character is returned once it is
// complete; every maximal ill-formed subpart becomes one U+FFFD, so the text does not depend on the
// splits.
class Utf8Stream {
 public:
  // Appends the text that is now complete to `out`.
  void Push(std::string_view bytes, std::string& out);
  // Ends the text: an incomplete character becomes U+FFFD.
  void Finish(std::string& out);

 private:
  std::string pending_;  // start of an incomplete character, at most 3 bytes
};

}  // namespace outrider
