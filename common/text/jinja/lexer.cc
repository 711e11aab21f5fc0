#include "common/text/jinja/lexer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/printable.h"
#include "common/text/jinja/messages.h"
#include "common/text/jinja/python_text.h"
#include "common/text/unicode.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// Converts every line end to \n, and removes one at the very end.
std::string WithPlainNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(WithPlainNewlines(source)) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) OUTRIDER_TRY(ReadText());
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // "" beyond the end.
  std::string_view Rest(size_t from) const {
    return std::string_view(source_).substr(std::min(from, source_.size()));
  }
  bool Looks(size_t pos, std::string_view text) const { return Rest(pos).starts_with(text); }

  size_t SkipSpace(size_t pos) const {
    while (pos < source_.size()) {
      const Utf8Character character = FirstCharacter(Rest(pos));
      if (!IsSpace(character.code)) break;
      pos += character.size;
    }
    return pos;
  }

  // Moves to `to` and counts lines.
  void MoveTo(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    line_starts_ = to > at_ ? source_[to - 1] == '\n' : line_starts_;
    at_ = to;
  }

  void Add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text)});
  }

  // The text [at_, end) before a tag with `sign` ('-', '+' or 0) after its opening brace.
  void AddText(size_t end, char sign, bool is_block) {
    std::string_view text = Rest(at_).substr(0, end - at_);
    if (sign == '-') {
      while (!text.empty() && IsSpace(LastCharacter(text).code)) {
        text.remove_suffix(LastCharacter(text).size);
      }
    } else if (sign != '+' && is_block) {
      const size_t line_begin = text.rfind('\n') + 1;  // 0 without one
      const std::string_view indent = text.substr(line_begin);
      if ((line_begin > 0 || line_starts_) && SkipSpace(at_ + line_begin) >= end) {
        text.remove_suffix(indent.size());
      }
    }
    if (!text.empty()) Add(Token::Kind::kText, std::string(text));
  }

  // The end of a `%}` or `#}` with its sign, including the newline or space that it takes; nullopt
  // if there is none.
  std::optional<size_t> EndOfTag(size_t pos, std::string_view end) const {
    if (Looks(pos, "-") && Looks(pos + 1, end)) return SkipSpace(pos + 1 + end.size());
    if (Looks(pos, "+") && Looks(pos + 1, end)) return pos + 1 + end.size();
    if (!Looks(pos, end)) return std::nullopt;
    return pos + end.size() + (Looks(pos + end.size(), "\n") ? 1 : 0);
  }

  static char SignAt(std::string_view text) {
    return !text.empty() && (text[0] == '-' || text[0] == '+') ? text[0] : '\0';
  }

  Status ReadText() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        Add(Token::Kind::kText, source_.substr(at_));
        MoveTo(source_.size());
        return Status();
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char kind = source_[tag + 1];
    const char sign = SignAt(Rest(tag + 2));
    const size_t inside = tag + 2 + (sign != 0 ? 1 : 0);
    AddText(tag, sign, kind != '{');
    MoveTo(tag);
    if (kind == '#') return ReadComment(inside);
    if (kind == '%') {
      if (const auto raw = EndOfRawBegin(inside)) return ReadRaw(*raw);
    }
    Add(kind == '{' ? Token::Kind::kPrintBegin : Token::Kind::kBlockBegin, "");
    MoveTo(inside);
    return ReadTag(kind == '{');
  }

  Status ReadComment(size_t inside) {
    const int begin = line_;
    const size_t close = source_.find("#}", inside);
    if (close == std::string::npos) {
      return SyntaxError(begin, "a comment is not closed by '#}'");
    }
    const bool has_sign = close > inside && SignAt(Rest(close - 1)) != 0;
    MoveTo(*EndOfTag(has_sign ? close - 1 : close, "#}"));
    return Status();
  }

  // After `{%`: the end of the rest of `raw %}`.
  std::optional<size_t> EndOfRawBegin(size_t inside) const {
    size_t pos = SkipSpace(inside);
    if (!Looks(pos, "raw")) return std::nullopt;
    pos = SkipSpace(pos + 3);
    if (Looks(pos, "-%}")) return SkipSpace(pos + 3);
    return Looks(pos, "%}") ? std::optional(pos + 2) : std::nullopt;
  }

  Status ReadRaw(size_t inside) {
    const int begin = line_;
    MoveTo(inside);
    for (size_t tag = inside;; tag += 2) {
      tag = source_.find("{%", tag);
      if (tag == std::string::npos) {
        return SyntaxError(begin, "a raw block is not closed by '{% endraw %}'");
      }
      const char sign = SignAt(Rest(tag + 2));
      const size_t word = SkipSpace(tag + 2 + (sign != 0 ? 1 : 0));
      if (!Looks(word, "endraw")) continue;
      const auto end = EndOfTag(SkipSpace(word + 6), "%}");
      if (!end.has_value()) continue;
      AddText(tag, sign, /*is_block=*/true);
      MoveTo(*end);
      return Status();
    }
  }

  // From after `{{` or `{%` to after its end.
  Status ReadTag(bool is_print) {
    const int begin = line_;
    std::string open;  // the open brackets
    while (at_ < source_.size()) {
      if (open.empty()) {
        const auto end = is_print ? EndOfPrint(at_) : EndOfTag(at_, "%}");
        if (end.has_value()) {
          Add(is_print ? Token::Kind::kPrintEnd : Token::Kind::kBlockEnd, "");
          MoveTo(*end);
          return Status();
        }
      }
      OUTRIDER_TRY(ReadToken(&open));
    }
    return SyntaxError(begin,
                       is_print ? "'{{' is not closed by '}}'" : "'{%' is not closed by '%}'");
  }

  std::optional<size_t> EndOfPrint(size_t pos) const {
    if (Looks(pos, "-}}")) return SkipSpace(pos + 3);
    return Looks(pos, "}}") ? std::optional(pos + 2) : std::nullopt;
  }

  Status ReadToken(std::string* open) {
    const Utf8Character first = FirstCharacter(Rest(at_));
    if (IsSpace(first.code)) {
      MoveTo(SkipSpace(at_));
      return Status();
    }
    if (IsAsciiDigit(source_[at_])) return ReadNumber();
    if (IsWordCharacter(first.code)) {
      size_t end = at_;
      while (end < source_.size() && IsWordCharacter(FirstCharacter(Rest(end)).code)) {
        end += FirstCharacter(Rest(end)).size;
      }
      if (end - at_ > kMaxNameBytes) {
        return SyntaxError(line_, "a name has " + std::to_string(end - at_) + " bytes, at most " +
                                      std::to_string(kMaxNameBytes) + " are read");
      }
      Add(Token::Kind::kName, source_.substr(at_, end - at_));
      MoveTo(end);
      return Status();
    }
    if (first.code == '\'' || first.code == '"') return ReadString(source_[at_]);
    for (const std::string_view symbol : kOperators) {
      if (!Looks(at_, symbol)) continue;
      OUTRIDER_TRY(Balance(symbol[0], open));
      Add(Token::Kind::kOperator, std::string(symbol));
      MoveTo(at_ + symbol.size());
      return Status();
    }
    return SyntaxError(line_,
                       "unexpected character '" + Printable(Rest(at_).substr(0, first.size)) + "'");
  }

  Status Balance(char symbol, std::string* open) {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (const size_t kind = kOpen.find(symbol); kind != kOpen.npos) {
      open->push_back(kClose[kind]);
    } else if (kClose.find(symbol) != kClose.npos) {
      if (open->empty() || open->back() != symbol) {
        return SyntaxError(
            line_, std::string("unexpected '") + symbol + "'" +
                       (open->empty() ? "" : std::string(", expected '") + open->back() + "'"));
      }
      open->pop_back();
    }
    return Status();
  }

  // Digits of a base with single underscores between them, from `pos`.
  size_t EndOfDigits(size_t pos, std::string_view digits) const {
    const auto is_digit = [&](size_t i) {
      return i < source_.size() && digits.find(source_[i]) != digits.npos;
    };
    if (!is_digit(pos)) return pos;
    while (is_digit(pos + 1) || (Looks(pos + 1, "_") && is_digit(pos + 2))) {
      pos += is_digit(pos + 1) ? 1 : 2;
    }
    return pos + 1;
  }

  Status ReadNumber() {
    constexpr std::string_view kDecimal = "0123456789";
    size_t end = EndOfDigits(at_, kDecimal);
    bool is_float = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot) {
      if (Looks(end, ".") && EndOfDigits(end + 1, kDecimal) > end + 1) {
        end = EndOfDigits(end + 1, kDecimal);
        is_float = true;
      }
      if (Looks(end, "e") || Looks(end, "E")) {
        const size_t digits = end + 1 + (SignAt(Rest(end + 1)) != 0 ? 1 : 0);
        if (EndOfDigits(digits, kDecimal) > digits) {
          end = EndOfDigits(digits, kDecimal);
          is_float = true;
        }
      }
    }
    if (is_float) {
      const std::string text = source_.substr(at_, end - at_);
      Add(Token::Kind::kFloat, text);
      tokens_.back().real = ParseFloat(text).value_or(0);
      MoveTo(end);
      return Status();
    }
    return ReadInteger(end);
  }

  // `decimal_end`: end of the decimal digits here.
  Status ReadInteger(size_t decimal_end) {
    size_t end = decimal_end;
    int base = 10;
    if (source_[at_] == '0') {
      const char prefix = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
      const std::string_view digits = (prefix | 0x20) == 'x'   ? "0123456789abcdefABCDEF"
                                      : (prefix | 0x20) == 'o' ? "01234567"
                                      : (prefix | 0x20) == 'b' ? "01"
                                                               : "";
      const size_t begin = at_ + 2 + (Looks(at_ + 2, "_") ? 1 : 0);
      if (!digits.empty() && EndOfDigits(begin, digits) > begin) {
        end = EndOfDigits(begin, digits);
        base = 0;
      } else {
        end = EndOfDigits(at_, "0");  // in Python 012 is invalid
      }
    }
    const std::string text = source_.substr(at_, end - at_);
    bool too_large = false;
    const auto value = ParseInt(text, base, &too_large);
    if (!value.has_value()) {
      return SyntaxError(line_, "the number " + Printable(text, 40) + " does not fit in 64 bits");
    }
    Add(Token::Kind::kInteger, text);
    tokens_.back().integer = *value;
    MoveTo(end);
    return Status();
  }

  Status ReadString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      return SyntaxError(line_, std::string("a string is not closed by ") + quote);
    }
    OUTRIDER_ASSIGN(std::string text, Unescaped(Rest(at_ + 1).substr(0, end - at_ - 1)));
    Add(Token::Kind::kString, std::move(text));
    MoveTo(end + 1);
    return Status();
  }

  Result<std::string> Unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char kind = text[++i];  // it exists: an escaped end of the string is impossible
      constexpr std::string_view kNamed = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t named = kNamed.find(kind); named != kNamed.npos) {
        out += kMeant[named];
      } else if (kind == 'x' || kind == 'u' || kind == 'U') {
        const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        OUTRIDER_TRY(AppendCode(text.substr(i + 1, digits), digits, &out));
        i += digits;
      } else if (kind >= '0' && kind <= '7') {
        char32_t code = 0;
        size_t size = 0;
        for (; size < 3 && i + size < text.size() && text[i + size] >= '0' && text[i + size] <= '7';
             ++size) {
          code = code * 8 + static_cast<char32_t>(text[i + size] - '0');
        }
        AppendUtf8(code, out);
        i += size - 1;
      } else if (kind == 'N') {
        return SyntaxError(line_, "characters by name (\\N) are not supported");
      } else if (kind != '\n') {  // an escaped newline is removed
        out += '\\';
        out += kind;
      }
    }
    return out;
  }

  Status AppendCode(std::string_view hex, size_t digits, std::string* out) const {
    bool too_large = false;
    const bool complete =
        hex.size() == digits && hex.find_first_not_of("0123456789abcdefABCDEF") == hex.npos;
    const auto code = complete ? ParseInt(hex, 16, &too_large) : std::nullopt;
    if (!code.has_value() || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
      return SyntaxError(line_, "'" + Printable(hex) + "' in a string is not a character's code");
    }
    AppendUtf8(static_cast<char32_t>(*code), *out);
    return Status();
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // the last token ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace outrider::jinja
