#include "common/grammar/gbnf.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/printable.h"
#include "common/grammar/source_reader.h"
#include "common/text/utf8.h"

namespace outrider::grammar {
namespace {

std::string Shown(std::string_view name) { return Printable(name, kMaxShownName); }

bool IsNameCharacter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view grammar, RuleSet& rules, GbnfRules defined)
      : in_(grammar), rules_(rules), ids_(std::move(defined)) {}

  Result<RuleId> Parse() {
    for (SkipSpace(true); !in_.at_end(); SkipSpace(true)) OUTRIDER_TRY(ParseRule());
    OUTRIDER_TRY(rules_.status());
    for (const auto& [name, id] : ids_) {
      if (rules_.rules()[static_cast<size_t>(id)].body == kNoExpr) {
        return InvalidArgument("the rule " + Shown(name) + " is used but not defined");
      }
    }
    const auto root = ids_.find("root");
    if (root == ids_.end()) return InvalidArgument("there is no rule root");
    return root->second;
  }

 private:
  Status Error(const std::string& why) const {
    return InvalidArgument("line " + std::to_string(in_.line()) + ": " + why);
  }

  void SkipSpace(bool and_lines) {
    for (;;) {
      const char32_t c = in_.Peek();
      if (c == '#') {
        while (!in_.at_end() && in_.Peek() != '\n') in_.Next();
      } else if (c == ' ' || c == '\t' || (and_lines && (c == '\n' || c == '\r'))) {
        in_.Next();
      } else {
        return;
      }
    }
  }

  std::string TakeName() {
    std::string name;
    while (IsNameCharacter(in_.Peek())) name += static_cast<char>(in_.Next());
    return name;
  }

  RuleId RuleOf(const std::string& name) {
    const auto [found, is_new] = ids_.try_emplace(name, 0);
    if (is_new) found->second = rules_.DeclareRule(name);
    return found->second;
  }

  Status ParseRule() {
    const std::string name = TakeName();
    if (name.empty()) return Error("a rule must begin with its name");
    SkipSpace(false);
    if (!in_.TakeText("::=")) return Error("the rule " + Shown(name) + " needs ::= after its name");
    SkipSpace(true);
    const RuleId id = RuleOf(name);
    OUTRIDER_TRY(rules_.status());
    if (rules_.rules()[static_cast<size_t>(id)].body != kNoExpr) {
      return Error("the rule " + Shown(name) + " is defined twice");
    }
    OUTRIDER_ASSIGN(const ExprId body, ParseChoice(/*depth=*/0));
    OUTRIDER_TRY(rules_.status());
    rules_.SetBody(id, body);
    if (!in_.at_end() && in_.Peek() != '\n' && in_.Peek() != '\r') {
      return Error("the rule " + Shown(name) + " must end with its line");
    }
    return Status();
  }

  Result<ExprId> ParseChoice(int depth) {
    if (depth > rules_.limits().nesting) {
      return Error("groups in each other beyond " + std::to_string(rules_.limits().nesting) +
                   " levels");
    }
    std::vector<ExprId> alternatives;
    do {
      SkipSpace(true);
      OUTRIDER_ASSIGN(const ExprId alternative, ParseSequence(depth));
      alternatives.push_back(alternative);
    } while (in_.Take('|'));
    return rules_.Choice(std::move(alternatives));
  }

  // Ends before `|`, `)`, and, outside groups, before the end of its line.
  Result<ExprId> ParseSequence(int depth) {
    std::vector<ExprId> parts;
    for (SkipSpace(depth > 0); !in_.at_end(); SkipSpace(depth > 0)) {
      const char32_t c = in_.Peek();
      if (c == '|' || c == ')' || c == '\n' || c == '\r') break;
      OUTRIDER_ASSIGN(const ExprId part, ParseQuantified(depth));
      parts.push_back(part);
      OUTRIDER_TRY(rules_.status());
    }
    return rules_.Sequence(std::move(parts));
  }

  Result<ExprId> ParseQuantified(int depth) {
    OUTRIDER_ASSIGN(ExprId part, ParseAtom(depth));
    for (;;) {
      SkipSpace(depth > 0);
      int min = 0, max = kUnbounded;
      if (in_.Take('+')) {
        min = 1;
      } else if (in_.Take('?')) {
        max = 1;
      } else if (!in_.Take('*')) {
        const Result<bool> counts = in_.TakeCounts(&min, &max, rules_.limits().repetitions);
        if (!counts.ok()) return Error(counts.status().message());
        if (!*counts) return part;
      }
      part = rules_.Repeat(part, min, max);
      OUTRIDER_TRY(rules_.status());
    }
  }

  Result<ExprId> ParseAtom(int depth) {
    const char32_t c = in_.Peek();
    if (c == '"') return ParseString();
    if (c == '[') return ParseClass();
    if (in_.Take('.')) return rules_.Characters(CodePointSet().Complement());
    if (in_.Take('(')) {
      OUTRIDER_ASSIGN(const ExprId inner, ParseChoice(depth + 1));
      SkipSpace(true);
      if (!in_.Take(')')) return Error("a ( without its )");
      return inner;
    }
    if (c == '<' || c == '!') return Error("tokens (<...>) are not supported");
    const std::string name = TakeName();
    if (name.empty()) {
      std::string shown;
      AppendUtf8(c, shown);
      return Error("'" + shown + "' begins no part of a rule");
    }
    return rules_.Ref(RuleOf(name));
  }

  Result<ExprId> ParseString() {
    in_.Next();
    std::string bytes;
    while (in_.Peek() != '"') {
      if (in_.at_end() || in_.Peek() == '\n') return Error("a string without its end");
      OUTRIDER_ASSIGN(const char32_t c, TakeCharacter());
      AppendUtf8(c, bytes);
    }
    in_.Next();
    return rules_.Bytes(bytes);
  }

  Result<ExprId> ParseClass() {
    in_.Next();
    const bool negated = in_.Take('^');
    CodePointSet set;
    while (in_.Peek() != ']') {
      if (in_.at_end() || in_.Peek() == '\n') return Error("a [ without its ]");
      OUTRIDER_ASSIGN(const char32_t low, TakeCharacter());
      char32_t high = low;
      if (in_.Peek() == '-' && in_.Peek(1) != ']') {
        in_.Next();
        if (in_.at_end()) return Error("a [ without its ]");
        OUTRIDER_ASSIGN(high, TakeCharacter());
        if (high < low) return Error("a range whose end is before its beginning");
      }
      set.Add(low, high);
    }
    in_.Next();
    return rules_.Characters(negated ? set.Complement() : set);
  }

  Result<char32_t> TakeCharacter() {
    const char32_t c = in_.Next();
    if (c != '\\') return c;
    if (in_.at_end()) return Error("a \\ at the end");
    const char32_t escaped = in_.Next();
    switch (escaped) {
      case 'n': return U'\n';
      case 't': return U'\t';
      case 'r': return U'\r';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return escaped;
      case 'x': return TakeHex(2);
      case 'u': return TakeHex(4);
      case 'U': return TakeHex(8);
      default: break;
    }
    std::string shown;
    AppendUtf8(escaped, shown);
    return Error("the escape \\" + shown + " is not known");
  }

  Result<char32_t> TakeHex(int digits) {
    Result<char32_t> code = in_.TakeHex(digits);
    if (!code.ok()) return Error(code.status().message());
    if (*code > kLastCodePoint || (*code >= 0xD800 && *code <= 0xDFFF)) {
      return Error("an escape that is not a character");
    }
    return code;
  }

  SourceReader in_;
  RuleSet& rules_;
  GbnfRules ids_;
};

}  // namespace

Result<RuleId> ParseGbnf(std::string_view grammar, RuleSet& rules, GbnfRules defined) {
  return GbnfParser(grammar, rules, std::move(defined)).Parse();
}

}  // namespace outrider::grammar
