#include "common/grammar/grammar.h"

#include <utility>

#include "common/base/printable.h"
#include "common/grammar/automaton_builder.h"
#include "common/grammar/gbnf.h"
#include "common/grammar/json_schema.h"
#include "common/grammar/regex.h"
#include "common/grammar/rule_set.h"
#include "common/text/utf8.h"

namespace outrider::grammar {
namespace {

Result<RuleId> RootOf(RuleSet& rules, Result<ExprId> body) {
  OUTRIDER_ASSIGN(const ExprId expr, std::move(body));
  const RuleId root = rules.DeclareRule("root");
  rules.SetBody(root, expr);
  return root;
}

Result<ExprId> ReadChoices(const std::vector<std::string>& choices, RuleSet& rules) {
  if (choices.empty()) return InvalidArgument("no choice is given");
  std::vector<ExprId> ways;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (FindInvalidUtf8(choices[i])) {
      return InvalidArgument("choice " + std::to_string(i) + " is not UTF-8");
    }
    ways.push_back(rules.Bytes(choices[i]));
    OUTRIDER_TRY(rules.status());
  }
  return rules.Choice(std::move(ways));
}

Result<RuleId> ReadGbnf(const GrammarSource& source, RuleSet& rules) {
  GbnfRules defined;
  for (const SchemaRule& rule : source.schemas) {
    if (FindInvalidUtf8(rule.schema)) {
      return InvalidArgument("the schema of the rule " + Printable(rule.name, kMaxShownName) +
                             " is not UTF-8");
    }
    const Result<RuleId> id = ParseJsonSchema(rule.schema, rules, rule.path);
    if (!id.ok()) return id.status().Annotate(Printable(rule.name, kMaxShownName));
    if (!defined.emplace(rule.name, *id).second) {
      return InvalidArgument("the rule " + Printable(rule.name, kMaxShownName) +
                             " is defined by two schemas");
    }
  }
  return ParseGbnf(source.text, rules, defined);
}

Result<RuleId> ReadSource(const GrammarSource& source, RuleSet& rules) {
  switch (source.kind) {
    case GrammarSource::Kind::kJsonObject: return AnyJsonObject(rules);
    case GrammarSource::Kind::kJsonSchema: return ParseJsonSchema(source.text, rules);
    case GrammarSource::Kind::kRegex: return RootOf(rules, ParseRegex(source.text, rules));
    case GrammarSource::Kind::kChoice: return RootOf(rules, ReadChoices(source.choices, rules));
    case GrammarSource::Kind::kGbnf: return ReadGbnf(source, rules);
  }
  return InvalidArgument("an unknown kind of grammar");
}

}  // namespace

Result<std::shared_ptr<const Grammar>> Grammar::Compile(const GrammarSource& source,
                                                        const GrammarLimits& limits) {
  if (source.bytes() > limits.source_bytes) {
    return InvalidArgument("the grammar has " + std::to_string(source.bytes()) +
                           " bytes, at most " + std::to_string(limits.source_bytes) +
                           " are supported");
  }
  if (const auto pos = FindInvalidUtf8(source.text)) {
    return InvalidArgument("the grammar is not UTF-8 at byte " + std::to_string(*pos));
  }
  RuleSet rules(limits);
  OUTRIDER_ASSIGN(const RuleId root, ReadSource(source, rules));
  OUTRIDER_TRY(rules.status());
  OUTRIDER_ASSIGN(Automaton automaton, BuildAutomaton(rules, root));
  return std::shared_ptr<const Grammar>(new Grammar(std::move(automaton)));
}

}  // namespace outrider::grammar
