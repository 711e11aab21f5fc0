#include "common/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/text/newer_marks.h"
#include "common/text/script_ranges.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

using Codes = std::vector<utf8proc_int32_t>;

bool IsNewer(utf8proc_int32_t code) { return IsNewerMark(static_cast<char32_t>(code)); }

int ClassOf(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

bool IsStarter(utf8proc_int32_t code) { return ClassOf(code) == 0 || IsNewer(code); }

bool IsComposed(UnicodeForm form) {
  return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
}
bool IsCompatible(UnicodeForm form) {
  return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
}

// All characters below U+0300 are in NFC and compose with nothing before them. U+0300 starts with
// the byte 0xCC, and no continuation byte is that large.
bool IsNfcAtSight(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

// Whether the bytes alone show that the text is in this form. ASCII is in all of them.
bool IsAtSight(std::string_view text, UnicodeForm form) {
  if (form == UnicodeForm::kNfc) return IsNfcAtSight(text);
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Unicode section 3.11, D109: sorts each run of non-starters by combining class; equal ones keep
// their order.
void ReorderMarks(Codes& codes) {
  auto begin = codes.begin();
  while (begin != codes.end()) {
    if (IsStarter(*begin)) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, codes.end(), IsStarter);
    std::stable_sort(
        begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) { return ClassOf(a) < ClassOf(b); });
    begin = end;
  }
}

void AppendDecomposition(utf8proc_int32_t code, UnicodeForm form, Codes& codes) {
  const auto compatible = static_cast<utf8proc_option_t>(IsCompatible(form) ? UTF8PROC_COMPAT : 0);
  utf8proc_int32_t parts[32];  // the longest decomposition has 18
  int boundary = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      code, parts, 32, static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | compatible), &boundary);
  OUTRIDER_CHECK(count >= 0 && count <= 32);
  const bool is_changed = count != 1 || parts[0] != code;
  if (is_changed && IsNewer(code)) {
    codes.push_back(code);
  } else {
    codes.insert(codes.end(), parts, parts + count);
  }
}

// Newer marks compose with nothing, and nothing composes across them.
Codes Compose(Codes codes) {
  Codes out;
  for (auto begin = codes.begin(); begin != codes.end();) {
    const auto end = std::find_if(begin, codes.end(), IsNewer);
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        codes.data() + (begin - codes.begin()), end - begin,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    OUTRIDER_CHECK(count >= 0);
    out.insert(out.end(), begin, begin + count);
    begin = std::find_if_not(end, codes.end(), IsNewer);
    out.insert(out.end(), end, begin);
  }
  return out;
}

}  // namespace

bool IsNewerMark(char32_t code) {
  if (code < std::begin(kNewerMarks)->first) return false;
  const auto* range = std::lower_bound(
      std::begin(kNewerMarks), std::end(kNewerMarks), code,
      [](const NewerMarks& before, char32_t sought) { return before.last < sought; });
  return range != std::end(kNewerMarks) && range->first <= code;
}

std::string ToUnicodeForm(std::string_view text, UnicodeForm form) {
  if (IsAtSight(text, form)) return std::string(text);
  Codes codes;
  codes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Character character = FirstCharacter(text.substr(pos));
    pos += character.size;
    AppendDecomposition(static_cast<utf8proc_int32_t>(character.code), form, codes);
  }
  ReorderMarks(codes);
  if (IsComposed(form)) codes = Compose(std::move(codes));
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t code : codes) AppendUtf8(static_cast<char32_t>(code), out);
  return out;
}

bool IsWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsWordCharacter(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return code == 0x200C || code == 0x200D;
  }
}

int ScriptOf(char32_t code) {
  const auto* range = std::lower_bound(
      std::begin(kScriptRanges), std::end(kScriptRanges), code,
      [](const ScriptRange& before, char32_t sought) { return before.last < sought; });
  return range != std::end(kScriptRanges) && range->first <= code ? range->script : 0;
}

}  // namespace outrider
