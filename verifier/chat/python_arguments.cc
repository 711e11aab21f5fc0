#include "verifier/chat/python_arguments.h"

#include <charconv>
#include <cstdint>
#include <set>

#include "common/grammar/json_rules.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

constexpr int kMaxLevels = 32;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::string> Arguments() {
    std::string json = "{";
    std::set<std::string> names;
    while (!AtEnd()) {
      const std::string name = Word();
      if (name.empty() || IsDigit(name[0]) || !names.insert(name).second) return std::nullopt;
      if (!Take('=')) return std::nullopt;
      const std::optional<std::string> value = Value(1);
      if (!value.has_value()) return std::nullopt;
      json += (names.size() > 1 ? ", \"" : "\"") + name + "\": " + *value;
      if (!Take(',') && !AtEnd()) return std::nullopt;
    }
    return json + "}";
  }

 private:
  bool AtEnd() {
    const size_t next = text_.find_first_not_of(" \t\r\n", at_);
    at_ = next == std::string_view::npos ? text_.size() : next;
    return at_ == text_.size();
  }
  // The next byte after white space; '\0' at the end.
  char Peek() { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string Word() {
    AtEnd();
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordByte(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<std::string> Value(int level) {
    if (level > kMaxLevels) return std::nullopt;
    const char c = Peek();
    if (c == '"' || c == '\'') {
      const std::optional<std::string> text = String();
      if (!text.has_value()) return std::nullopt;
      return grammar::QuoteJson(*text);
    }
    if (Take('[')) return List(']', level);
    if (Take('(')) return List(')', level);
    if (Take('{')) return Dict(level);
    if (IsDigit(c) || c == '-' || c == '+' || c == '.') return Number();
    const std::string word = Word();
    if (word == "True" || word == "true") return "true";
    if (word == "False" || word == "false") return "false";
    if (word == "None" || word == "null") return "null";
    return std::nullopt;
  }

  std::optional<std::string> List(char end, int level) {
    std::string json = "[";
    while (!Take(end)) {
      const std::optional<std::string> item = Value(level + 1);
      if (!item.has_value()) return std::nullopt;
      json += (json.size() > 1 ? ", " : "") + *item;
      if (!Take(',') && Peek() != end) return std::nullopt;
    }
    return json + "]";
  }

  std::optional<std::string> Dict(int level) {
    std::string json = "{";
    while (!Take('}')) {
      const char quote = Peek();
      if (quote != '"' && quote != '\'') return std::nullopt;
      const std::optional<std::string> key = String();
      if (!key.has_value() || !Take(':')) return std::nullopt;
      const std::optional<std::string> value = Value(level + 1);
      if (!value.has_value()) return std::nullopt;
      json += (json.size() > 1 ? ", " : "") + grammar::QuoteJson(*key) + ": " + *value;
      if (!Take(',') && Peek() != '}') return std::nullopt;
    }
    return json + "}";
  }

  // A decimal number, as JSON writes it: with digits on both sides of its point.
  std::optional<std::string> Number() {
    std::string json;
    if (text_[at_] == '-') json += '-';
    if (text_[at_] == '-' || text_[at_] == '+') ++at_;
    const std::string whole = Digits();
    if (whole.size() > 1 && whole[0] == '0') return std::nullopt;
    json += whole.empty() ? "0" : whole;
    std::string fraction;
    const bool has_point = at_ < text_.size() && text_[at_] == '.';
    if (has_point) {
      ++at_;
      fraction = Digits();
      json += "." + (fraction.empty() ? "0" : fraction);
    }
    if (whole.empty() && fraction.empty()) return std::nullopt;
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      json += text_[at_++];
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) json += text_[at_++];
      const std::string exponent = Digits();
      if (exponent.empty()) return std::nullopt;
      json += exponent;
    }
    const bool goes_on = at_ < text_.size() && (IsWordByte(text_[at_]) || text_[at_] == '.');
    if (goes_on) return std::nullopt;
    return json;
  }
  std::string Digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // REQUIRES: the next byte is a quote.
  std::optional<std::string> String() {
    const char quote = text_[at_++];
    std::string text;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (c != '\\') {
        text += c;
      } else if (at_ == text_.size() || !Escape(text)) {
        return std::nullopt;
      }
    }
    if (at_ == text_.size()) return std::nullopt;
    ++at_;
    return text;
  }

  // The character after a backslash. Python keeps the backslash of an unknown escape.
  bool Escape(std::string& text) {
    constexpr std::string_view kEscapes = "nrtbfva0\\'\"";
    constexpr std::string_view kMeanings("\n\r\t\b\f\v\a\0\\'\"", 11);
    const char c = text_[at_++];
    if (c == '\n') return true;
    if (c == 'x') return Character(2, text);
    if (c == 'u') return Character(4, text);
    if (c == 'U') return Character(8, text);
    const size_t known = kEscapes.find(c);
    if (known == std::string_view::npos) text += '\\';
    text += known == std::string_view::npos ? c : kMeanings[known];
    return true;
  }
  bool Character(size_t digits, std::string& text) {
    if (text_.size() - at_ < digits) return false;
    uint32_t code = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + digits, code, 16);
    if (error != std::errc() || end != begin + digits) return false;
    const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (code > 0x10FFFF || is_surrogate) return false;
    at_ += digits;
    AppendUtf8(static_cast<char32_t>(code), text);
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string> JsonOfPythonArguments(std::string_view arguments) {
  return Reader(arguments).Arguments();
}

}  // namespace outrider
