#include "common/text/rewriting.h"

#include <utf8proc.h>

#include "common/text/unicode.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

constexpr char32_t kDottedCapitalI = 0x130;  // the only letter whose lower case has two characters
constexpr char32_t kDotAbove = 0x307;
constexpr char32_t kReplacement = 0xFFFD;

utf8proc_category_t CategoryOf(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// What `rewrite(code, out)` appends for each character.
template <class Rewrite>
std::string ForCharacters(std::string_view text, const Rewrite& rewrite) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    rewrite(character.code, out);
    text.remove_prefix(character.size);
  }
  return out;
}

bool IsWithin(char32_t code, char32_t low, char32_t high) { return code >= low && code <= high; }

bool IsBertControl(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  const utf8proc_category_t category = CategoryOf(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

// The blocks that BERT considers Chinese.
bool IsChinese(char32_t code) {
  return IsWithin(code, 0x4E00, 0x9FFF) || IsWithin(code, 0x3400, 0x4DBF) ||
         IsWithin(code, 0x20000, 0x2A6DF) || IsWithin(code, 0x2A700, 0x2B73F) ||
         IsWithin(code, 0x2B740, 0x2B81F) || IsWithin(code, 0x2B920, 0x2CEAF) ||
         IsWithin(code, 0xF900, 0xFAFF) || IsWithin(code, 0x2F800, 0x2FA1F);
}

std::string Cleaned(std::string_view text) {
  return ForCharacters(text, [](char32_t code, std::string& out) {
    if (code == 0 || code == kReplacement || IsBertControl(code)) return;
    AppendUtf8(IsWhiteSpace(code) ? U' ' : code, out);
  });
}

}  // namespace

std::string ToLowerCase(std::string_view text) {
  return ForCharacters(text, [](char32_t code, std::string& out) {
    if (code == kDottedCapitalI) {
      AppendUtf8('i', out);
      AppendUtf8(kDotAbove, out);
    } else {
      AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
    }
  });
}

std::string WithoutMarks(std::string_view text, bool nonspacing_alone) {
  return ForCharacters(text, [&](char32_t code, std::string& out) {
    const utf8proc_category_t category = CategoryOf(code);
    const bool nonspacing = category == UTF8PROC_CATEGORY_MN;
    const bool other_mark = category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
    const bool is_removed = nonspacing || (other_mark && !nonspacing_alone);
    if (!is_removed || IsNewerMark(code)) AppendUtf8(code, out);
  });
}

std::string WithoutOuterSpace(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && IsWhiteSpace(FirstCharacter(text).code)) {
    text.remove_prefix(FirstCharacter(text).size);
  }
  while (right && !text.empty() && IsWhiteSpace(LastCharacter(text).code)) {
    text.remove_suffix(LastCharacter(text).size);
  }
  return std::string(text);
}

std::string AfterNmt(std::string_view text) {
  return ForCharacters(text, [](char32_t code, std::string& out) {
    const bool is_removed = IsWithin(code, 0x01, 0x08) || code == 0x0B ||
                            IsWithin(code, 0x0E, 0x1F) || code == 0x7F || code == 0x8F ||
                            code == 0x9F;
    if (is_removed) return;
    const bool is_space = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D ||
                          code == 0x1680 || IsWithin(code, 0x200B, 0x200F) || code == 0x2028 ||
                          code == 0x2029 || code == 0x2581 || code == 0xFEFF ||
                          code == kReplacement;
    AppendUtf8(is_space ? U' ' : code, out);
  });
}

std::string AfterBert(std::string_view text, const BertStep& step) {
  std::string out(text);
  if (step.clean_text) out = Cleaned(out);
  if (step.separate_chinese) {
    out = ForCharacters(out, [](char32_t code, std::string& to) {
      if (IsChinese(code)) to += ' ';
      AppendUtf8(code, to);
      if (IsChinese(code)) to += ' ';
    });
  }
  if (step.strip_accents) {
    out = WithoutMarks(ToUnicodeForm(out, UnicodeForm::kNfd),
                       /*nonspacing_alone=*/true);
  }
  return step.lowercase ? ToLowerCase(out) : out;
}

}  // namespace outrider
