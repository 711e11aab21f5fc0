// The grammar that a text must follow, as the request states it. common/grammar compiles it;
// docs/structured_output.md says what is supported.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

inline constexpr size_t kMaxGrammarBytes = 256 << 10;  // per source
inline constexpr int kMaxGrammarChoices = 1024;
inline constexpr int kMaxGrammarSchemas = 1024;

// A rule that a GBNF text refers to by `name`, defined by a JSON Schema.
struct SchemaRule {
  std::string name;
  std::string schema;  // a JSON Schema of an object
  // The part of the document that the rule matches: members to follow from its root. References
  // within that part resolve in the whole document.
  std::vector<std::string> path = {};

  friend bool operator==(const SchemaRule&, const SchemaRule&) = default;
};

struct GrammarSource {
  enum class Kind {
    kJsonObject,  // any JSON object
    kJsonSchema,  // `text`: a JSON Schema of an object
    kRegex,       // `text`: a regular expression that the whole text matches
    kChoice,      // the text is one of `choices`
    kGbnf,        // `text`: a grammar in llama.cpp's GBNF; the text matches its rule `root`
  };
  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  std::vector<SchemaRule> schemas = {};  // for kGbnf

  size_t bytes() const;
  friend bool operator==(const GrammarSource&, const GrammarSource&) = default;
};

// Checks sizes without reading the text. kInvalidArgument.
Status Validate(const GrammarSource& source);

}  // namespace outrider
