#include "common/spec/grammar_source.h"

#include <iterator>

namespace outrider {

size_t GrammarSource::bytes() const {
  size_t bytes = text.size();
  for (const std::string& choice : choices) bytes += choice.size() + 1;
  for (const SchemaRule& rule : schemas) {
    bytes += rule.name.size() + rule.schema.size();
    for (const std::string& step : rule.path) bytes += step.size() + 1;
  }
  return bytes;
}

Status Validate(const GrammarSource& source) {
  OUTRIDER_TRY(
      CheckAtMost("structured_output.choice", std::ssize(source.choices), kMaxGrammarChoices));
  OUTRIDER_TRY(
      CheckAtMost("structured_output.schemas", std::ssize(source.schemas), kMaxGrammarSchemas));
  return CheckAtMost("structured_output", static_cast<int64_t>(source.bytes()),
                     static_cast<int64_t>(kMaxGrammarBytes), "bytes");
}

}  // namespace outrider
