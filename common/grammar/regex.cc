#include "common/grammar/regex.h"

#include <string>
#include <utility>
#include <vector>

#include "common/grammar/source_reader.h"

namespace outrider::grammar {
namespace {

CodePointSet Digits() { return CodePointSet::Range('0', '9'); }

CodePointSet WordCharacters() {
  CodePointSet out = Digits();
  out.Add('a', 'z');
  out.Add('A', 'Z');
  out.Add('_', '_');
  return out;
}

CodePointSet LineEnds() {
  CodePointSet out = CodePointSet::Range('\n', '\n');
  out.Add('\r', '\r');
  out.Add(0x2028, 0x2029);
  return out;
}

CodePointSet WhiteSpace() {
  CodePointSet out = CodePointSet::Range('\t', '\r');
  for (const char32_t c : {0x20, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000}) out.Add(c, c);
  out.Add(0x2000, 0x200A);
  out.Add(0x2028, 0x2029);
  return out;
}

// ECMAScript and Python differ in a few characters, which are neither \s nor \S here: a class takes
// those that both count, and a negated class leaves out those that one of them does.
CodePointSet MaybeWhiteSpace() {
  CodePointSet out = WhiteSpace();
  out.Add(0x1C, 0x1F);
  out.Add(0x85, 0x85);
  out.Add(0xFEFF, 0xFEFF);
  return out;
}

// Where an escape is.
enum class Context { kOutside, kInClass, kInNegatedClass };

class RegexParser {
 public:
  RegexParser(std::string_view regex, RuleSet& rules, const RegexOptions& options)
      : in_(regex), rules_(rules), options_(options) {}

  Result<ExprId> Parse() {
    OUTRIDER_ASSIGN(const ExprId expr, ParseChoice(/*depth=*/0));
    if (!in_.at_end()) return in_.Error("a ) without its (");
    OUTRIDER_TRY(rules_.status());
    return expr;
  }

 private:
  ExprId Write(const CodePointSet& set) {
    return options_.write_character ? options_.write_character(rules_, set)
                                    : rules_.Characters(set);
  }
  ExprId Anything() { return rules_.Repeat(Write(CodePointSet().Complement()), 0, kUnbounded); }

  Result<ExprId> ParseChoice(int depth) {
    if (depth > rules_.limits().nesting) {
      return in_.Error("groups in each other beyond " + std::to_string(rules_.limits().nesting) +
                       " levels");
    }
    std::vector<ExprId> alternatives;
    do {
      OUTRIDER_ASSIGN(const ExprId alternative, ParseSequence(depth));
      alternatives.push_back(alternative);
    } while (in_.Take('|'));
    return rules_.Choice(std::move(alternatives));
  }

  Result<ExprId> ParseSequence(int depth) {
    const bool is_whole = depth == 0;  // an alternative of the whole expression
    bool begins = false, ends = false;
    while (in_.Peek() == '^') {
      if (!is_whole) return in_.Error("^ inside a group is not supported");
      in_.Next();
      begins = true;
    }
    std::vector<ExprId> parts;
    while (!in_.at_end() && in_.Peek() != '|' && in_.Peek() != ')') {
      if (in_.Peek() == '^') return in_.Error("^ is supported at the beginning only");
      if (in_.Peek() == '$') {
        if (!is_whole) return in_.Error("$ inside a group is not supported");
        in_.Next();
        ends = true;
        continue;
      }
      if (ends) return in_.Error("$ is supported at the end only");
      OUTRIDER_ASSIGN(const ExprId part, ParseQuantified(depth));
      parts.push_back(part);
      OUTRIDER_TRY(rules_.status());
    }
    if (is_whole && options_.may_lie_inside) {
      if (!begins) parts.insert(parts.begin(), Anything());
      if (!ends) parts.push_back(Anything());
    }
    return rules_.Sequence(std::move(parts));
  }

  Result<ExprId> ParseQuantified(int depth) {
    OUTRIDER_ASSIGN(ExprId part, ParseAtom(depth));
    int min = 0, max = 0;
    OUTRIDER_ASSIGN(bool repeats, ParseQuantifier(&min, &max));
    if (!repeats) return part;
    part = rules_.Repeat(part, min, max);
    if (in_.Take('?')) return part;  // a lazy quantifier matches the same texts
    if (in_.Peek() == '+') return in_.Error("possessive quantifiers are not supported");
    OUTRIDER_ASSIGN(repeats, ParseQuantifier(&min, &max));
    if (repeats) return in_.Error("a quantifier after a quantifier");
    return part;
  }

  // A { that does not begin a quantifier is a literal, as elsewhere.
  Result<bool> ParseQuantifier(int* min, int* max) {
    *max = kUnbounded;
    if (in_.Take('*')) {
      *min = 0;
    } else if (in_.Take('+')) {
      *min = 1;
    } else if (in_.Take('?')) {
      *min = 0;
      *max = 1;
    } else {
      return in_.TakeCounts(min, max, rules_.limits().repetitions);
    }
    return true;
  }

  Result<ExprId> ParseAtom(int depth) {
    const char32_t c = in_.Next();
    switch (c) {
      case '.': return Write(LineEnds().Complement());
      case '[': return ParseClass();
      case '(': return ParseGroup(depth);
      case '*':
      case '+':
      case '?': return in_.Error("a quantifier without what it repeats");
      case '\\': {
        CodePointSet set;
        OUTRIDER_TRY(ParseEscape(Context::kOutside, set));
        return Write(set);
      }
      default: return Write(CodePointSet::Range(c, c));
    }
  }

  Result<ExprId> ParseGroup(int depth) {
    if (in_.Take('?')) {
      if (in_.TakeText("=") || in_.TakeText("!") || in_.TakeText("<=") || in_.TakeText("<!")) {
        return in_.Error("look-ahead and look-behind are not supported");
      }
      if (in_.TakeText(">")) return in_.Error("atomic groups are not supported");
      if (in_.TakeText("P=")) return in_.Error("back-references are not supported");
      if (in_.TakeText("P<") || in_.TakeText("<")) {
        while (!in_.at_end() && in_.Peek() != '>') in_.Next();
        if (!in_.Take('>')) return in_.Error("the name of a group without its >");
      } else if (!in_.Take(':')) {
        return in_.Error("(? with flags, comments or conditions is not supported");
      }
    }
    OUTRIDER_ASSIGN(const ExprId inner, ParseChoice(depth + 1));
    if (!in_.Take(')')) return in_.Error("a ( without its )");
    return inner;
  }

  Result<ExprId> ParseClass() {
    const bool negated = in_.Take('^');
    const Context context = negated ? Context::kInNegatedClass : Context::kInClass;
    CodePointSet set;
    for (bool is_first = true; is_first || in_.Peek() != ']'; is_first = false) {
      if (in_.at_end()) return in_.Error("a [ without its ]");
      if (in_.Peek() == ']' && is_first) return in_.Error("an empty class is not supported");
      CodePointSet low_set;
      OUTRIDER_ASSIGN(const bool is_range_start, ParseClassPart(context, low_set));
      if (!is_range_start || in_.Peek() != '-' || in_.Peek(1) == ']') {
        set.Add(low_set);
        continue;
      }
      in_.Next();
      CodePointSet high_set;
      OUTRIDER_ASSIGN(const bool is_range_end, ParseClassPart(context, high_set));
      if (!is_range_end) return in_.Error("a range that ends with a class");
      const char32_t low = low_set.Ranges()[0].low, high = high_set.Ranges()[0].low;
      if (low > high) return in_.Error("a range whose end is before its beginning");
      set.Add(low, high);
    }
    in_.Next();
    return Write(negated ? set.Complement() : set);
  }

  // Returns whether it is a single character.
  Result<bool> ParseClassPart(Context context, CodePointSet& set) {
    if (in_.at_end()) return in_.Error("a [ without its ]");
    if (in_.Peek() == '[' && (in_.Peek(1) == ':' || in_.Peek(1) == '.' || in_.Peek(1) == '=')) {
      return in_.Error("classes of POSIX are not supported");
    }
    const char32_t c = in_.Next();
    if (c == '\\') {
      OUTRIDER_TRY(ParseEscape(context, set));
    } else {
      set.Add(c, c);
    }
    const auto ranges = set.Ranges();
    return ranges.size() == 1 && ranges[0].low == ranges[0].high;
  }

  Status ParseEscape(Context context, CodePointSet& out) {
    const bool is_negated = context == Context::kInNegatedClass;
    if (in_.at_end()) return in_.Error("a \\ at the end");
    const char32_t c = in_.Next();
    const auto one = [&](char32_t code) {
      out.Add(code, code);
      return Status();
    };
    switch (c) {
      case 'd': return out.Add(Digits()), Status();
      case 'D': return out.Add(Digits().Complement()), Status();
      case 'w': return out.Add(WordCharacters()), Status();
      case 'W': return out.Add(WordCharacters().Complement()), Status();
      case 's': return out.Add(is_negated ? MaybeWhiteSpace() : WhiteSpace()), Status();
      case 'S':
        return out.Add((is_negated ? WhiteSpace() : MaybeWhiteSpace()).Complement()), Status();
      case 'n': return one('\n');
      case 't': return one('\t');
      case 'r': return one('\r');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case '0':
        if (in_.Peek() >= '0' && in_.Peek() <= '9')
          return in_.Error("octal escapes are not supported");
        return one(0);
      case 'x': return ParseHex(2, out);
      case 'u': return in_.Peek() == '{' ? ParseBracedHex(out) : ParseHex(4, out);
      case 'b':
        if (context != Context::kOutside) return one('\b');
        [[fallthrough]];
      case 'B': return in_.Error("\\b and \\B are not supported");
      case 'p':
      case 'P': return in_.Error("\\p and \\P are not supported");
      default: break;
    }
    if (c >= '1' && c <= '9') return in_.Error("back-references are not supported");
    if (c == 'k') return in_.Error("back-references are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      return in_.Error("the escape \\" + std::string(1, static_cast<char>(c)) +
                       " is not supported");
    }
    return one(c);
  }

  Status ParseHex(int digits, CodePointSet& out) {
    OUTRIDER_ASSIGN(char32_t code, in_.TakeHex(digits));
    // \uD83D\uDE00 is one character.
    if (code >= 0xD800 && code <= 0xDBFF && in_.Peek() == '\\' && in_.Peek(1) == 'u') {
      in_.Next();
      in_.Next();
      OUTRIDER_ASSIGN(const char32_t low, in_.TakeHex(4));
      if (low < 0xDC00 || low > 0xDFFF) return in_.Error("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code <= 0xDFFF) return in_.Error("half of a surrogate pair");
    out.Add(code, code);
    return Status();
  }

  Status ParseBracedHex(CodePointSet& out) {
    in_.Next();
    int digits = 0;
    while (digits < 7 && in_.Peek(static_cast<size_t>(digits)) != '}') ++digits;
    OUTRIDER_ASSIGN(const char32_t code, in_.TakeHex(digits));
    if (!in_.Take('}') || code > kLastCodePoint || (code >= 0xD800 && code <= 0xDFFF)) {
      return in_.Error("\\u{...} is not a character");
    }
    out.Add(code, code);
    return Status();
  }

  SourceReader in_;
  RuleSet& rules_;
  const RegexOptions& options_;
};

}  // namespace

Result<ExprId> ParseRegex(std::string_view regex, RuleSet& rules, const RegexOptions& options) {
  return RegexParser(regex, rules, options).Parse();
}

}  // namespace outrider::grammar
