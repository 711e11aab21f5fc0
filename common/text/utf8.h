// UTF-8 taken apart and put together, with the definitions of well-formedness and of "maximal
// subpart" of the Unicode standard (section 3.9, table 3-7).
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
  kTruncated,  // the text ends within a character that is well-formed so far
  kInvalid,    // no continuation can make this well-formed
};

struct Utf8Sequence {
  Utf8Kind kind;
  size_t size;  // bytes, at least 1; kInvalid: those that one U+FFFD stands for
};

// What `text` starts with. REQUIRES: not empty.
Utf8Sequence ScanUtf8(std::string_view text);

// The offset of the first byte that breaks the text, or nullopt when it is well-formed.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

struct Utf8Character {
  char32_t code;
  size_t size;  // bytes
};

// The first or the last character. REQUIRES: `text` is well-formed and not empty.
Utf8Character FirstCharacter(std::string_view text);
Utf8Character LastCharacter(std::string_view text);

void AppendUtf8(char32_t code, std::string& out);

// Bytes in, cut anywhere; well-formed text out. A character is given out when it is complete;
// every maximal ill-formed subpart becomes one U+FFFD, so the text does not depend on the cuts.
class Utf8Stream {
 public:
  // Appends the text that is now certain to `out`.
  void Push(std::string_view bytes, std::string& out);
  // Ends the text: an incomplete character becomes U+FFFD.
  void Finish(std::string& out);

 private:
  std::string pending_;  // the start of a character, at most 3 bytes
};

}  // namespace outrider
