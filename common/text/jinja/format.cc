// Python's `%` and str.format.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "common/base/printable.h"
#include "common/base/utf8_bytes.h"
#include "common/text/jinja/builtins.h"
#include "common/text/jinja/python_text.h"
#include "common/text/jinja/runtime.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;

constexpr int kMostWidth = 1000;  // characters

// %-08.3f: the part between % and the letter.
struct Conversion {
  std::string flags;  // of "-+ 0"
  int width = 0;
  int precision = -1;
  char type = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const MarkedText& format, const Value& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {
    is_tuple_ =
        arguments.Is(Kind::kSequence) && (arguments.sequence().flavor == Sequence::Flavor::kTuple ||
                                          arguments.sequence().flavor == Sequence::Flavor::kGroup);
  }

  Result<Value> Run() {
    const std::string& text = format_.text();
    size_t pos = 0;
    for (size_t percent = text.find('%'); percent != std::string::npos;
         percent = text.find('%', pos)) {
      out_.Append(format_, {pos, percent});
      pos = percent + 1;
      OUTRIDER_TRY(ReadConversion(&pos));
    }
    out_.Append(format_, {pos, text.size()});
    // Python treats anything that can be subscripted as a mapping, which need not be used.
    const bool is_mapping =
        arguments_.is_undefined() || arguments_.Is(Kind::kDict) ||
        (arguments_.Is(Kind::kSequence) && arguments_.sequence().IsIndexed() && !is_tuple_);
    const size_t given = is_tuple_ ? arguments_.sequence().items.size() : 1;
    if (!is_mapping && next_ < given) {
      return InvalidArgument("not all arguments of the format are used");
    }
    return runtime_.NewText(std::move(out_));
  }

 private:
  Result<int> ReadNumber(size_t* pos) const {
    int number = 0;
    for (; *pos < format_.size() && format_.text()[*pos] >= '0' && format_.text()[*pos] <= '9';
         ++*pos) {
      number = number * 10 + (format_.text()[*pos] - '0');
      if (number > kMostWidth) {
        return InvalidArgument("a width or precision above " + std::to_string(kMostWidth));
      }
    }
    return number;
  }

  Status ReadConversion(size_t* pos) {
    const std::string& text = format_.text();
    Conversion conversion;
    std::optional<Value> named;
    if (*pos < text.size() && text[*pos] == '(') {
      const size_t end = text.find(')', *pos);
      if (end == std::string::npos || !arguments_.Is(Kind::kDict)) {
        return InvalidArgument("a format with names needs a mapping");
      }
      const Value* found =
          arguments_.dict().Find(std::string_view(text).substr(*pos + 1, end - *pos - 1));
      if (found == nullptr) return InvalidArgument("the format names a key that is not there");
      named = *found;
      *pos = end + 1;
    }
    while (*pos < text.size() && std::string_view("-+ 0").find(text[*pos]) != std::string::npos) {
      conversion.flags += text[(*pos)++];
    }
    OUTRIDER_ASSIGN(conversion.width, ReadNumber(pos));
    if (*pos < text.size() && text[*pos] == '.') {
      ++*pos;
      OUTRIDER_ASSIGN(conversion.precision, ReadNumber(pos));
    }
    if (*pos < text.size() && std::string_view("hlL").find(text[*pos]) != std::string::npos) ++*pos;
    if (*pos >= text.size()) return InvalidArgument("the format ends within a conversion");
    conversion.type = text[(*pos)++];
    if (conversion.type == '%') {
      out_.Append("%");
      return Status();
    }
    if (!named.has_value()) {
      OUTRIDER_ASSIGN(named, NextArgument());
    }
    return Convert(conversion, *named);
  }

  Result<std::optional<Value>> NextArgument() {
    if (!is_tuple_) {
      if (next_++ == 0) return std::optional(arguments_);
      return InvalidArgument("not enough arguments for the format");
    }
    const auto& items = arguments_.sequence().items;
    if (next_ == items.size()) return InvalidArgument("not enough arguments for the format");
    return std::optional(items[next_++]);
  }

  Status Convert(const Conversion& conversion, const Value& value) {
    switch (conversion.type) {
      case 's':
      case 'r': return ConvertText(conversion, value);
      case 'd':
      case 'i':
      case 'u': return ConvertInteger(conversion, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return ConvertFloat(conversion, value);
      default:
        return InvalidArgument(std::string("the conversion %") +
                               Printable(std::string_view(&conversion.type, 1)) +
                               " is not supported");
    }
  }

  Status ConvertText(const Conversion& conversion, const Value& value) {
    MarkedText text;
    if (conversion.type == 's') {
      OUTRIDER_ASSIGN(text, runtime_.TextOf(value));
    } else {
      OUTRIDER_TRY(runtime_.AppendRepr(value, &text));
    }
    size_t characters = CountCharacters(text.text());
    if (conversion.precision >= 0 && static_cast<size_t>(conversion.precision) < characters) {
      characters = static_cast<size_t>(conversion.precision);
      text = text.Slice({0, ByteOfCharacter(text.text(), characters)});
    }
    const auto width = static_cast<size_t>(conversion.width);
    const std::string padding(width > characters ? width - characters : 0, ' ');
    const bool left = conversion.flags.find('-') != std::string::npos;
    if (!left) out_.Append(padding);
    out_.Append(text);
    if (left) out_.Append(padding);
    return Status();
  }

  // The equivalent format in C, with `length` before the letter.
  static std::string CFormat(const Conversion& conversion, const char* length, char type) {
    std::string out = "%" + conversion.flags;
    if (conversion.width > 0) out += std::to_string(conversion.width);
    if (conversion.precision >= 0) out += "." + std::to_string(conversion.precision);
    return out + length + type;
  }

  template <class Number>
  void Print(const std::string& format, Number number) {
    char buffer[kMostWidth * 2 + 400];
    // The format is made above from checked flags and numbers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int size = std::snprintf(buffer, sizeof(buffer), format.c_str(), number);
#pragma GCC diagnostic pop
    out_.Append(std::string_view(buffer, static_cast<size_t>(size)));
  }

  Status ConvertInteger(const Conversion& conversion, const Value& value) {
    const std::optional<double> number = value.AsNumber();
    if (!number.has_value()) return InvalidArgument("%d needs a number");
    int64_t integer = value.AsInt().value_or(0);
    if (!value.AsInt().has_value()) {
      if (!(std::abs(*number) < 9e18)) return InvalidArgument("%d: the number is too large");
      integer = static_cast<int64_t>(*number);
    }
    Conversion plain = conversion;
    // C ignores the flag 0 with a precision, Python does not.
    if (plain.precision >= 0 && plain.flags.find('0') != std::string::npos) {
      return InvalidArgument("a precision beside the flag 0 is not supported");
    }
    Print(CFormat(plain, "ll", 'd'), static_cast<long long>(integer));
    return Status();
  }

  Status ConvertFloat(const Conversion& conversion, const Value& value) {
    const std::optional<double> number = value.AsNumber();
    if (!number.has_value()) return InvalidArgument("%f needs a number");
    if (!std::isfinite(*number)) return InvalidArgument("%f: the number is not finite");
    Print(CFormat(conversion, "", conversion.type), *number);
    return Status();
  }

  Runtime& runtime_;
  const MarkedText& format_;
  const Value& arguments_;
  bool is_tuple_ = false;
  size_t next_ = 0;
  MarkedText out_;
};

// The argument for a field between braces: "", "0" or "name".
Result<Value> FieldOf(std::string_view field, const Arguments& arguments, size_t* next) {
  if (field.find_first_of(".[!:{") != field.npos) {
    return InvalidArgument("str.format has only {}, {0} and {name} here, not {" +
                           Printable(field, 60) + "}");
  }
  for (const auto& [name, value] : arguments.named) {
    if (name == field) return value;
  }
  size_t index = 0;
  if (field.empty()) {
    index = (*next)++;
  } else {
    bool too_large = false;
    const auto number = ParseInt(field, 10, &too_large);
    if (!number.has_value() || *number < 0) {
      return InvalidArgument("str.format: there is no argument '" + Printable(field, 60) + "'");
    }
    index = static_cast<size_t>(*number);
  }
  if (index >= arguments.positional.size()) {
    return InvalidArgument("str.format: there is no argument " + std::to_string(index));
  }
  return arguments.positional[index];
}

}  // namespace

Result<Value> FormatPercent(Runtime& runtime, const Value& format, const Value& arguments) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(format, "the format"));
  return PercentFormatter(runtime, *text, arguments).Run();
}

Result<Value> FormatBraces(Runtime& runtime, const Value& format, const Arguments& arguments) {
  OUTRIDER_ASSIGN(const MarkedText* const marked, TextArgument(format, "the format"));
  const std::string_view text = marked->text();
  MarkedText out;
  size_t next = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", pos), text.size());
    out.Append(*marked, {pos, brace});
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.Append(*marked, {brace, brace + 1});
      pos = brace + 2;
      continue;
    }
    const size_t end = text[brace] == '{' ? text.find('}', brace) : text.npos;
    if (end == text.npos) return InvalidArgument("str.format: a single brace");
    OUTRIDER_ASSIGN(const Value value,
                    FieldOf(text.substr(brace + 1, end - brace - 1), arguments, &next));
    OUTRIDER_ASSIGN(const MarkedText shown, runtime.TextOf(value));
    out.Append(shown);
    pos = end + 1;
  }
  return runtime.NewText(std::move(out));
}

}  // namespace outrider::jinja
