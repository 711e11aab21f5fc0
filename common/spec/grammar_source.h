// What a text must follow, as a request says it. common/grammar compiles it, and
// docs/structured_output.md says what of each kind is supported.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

inline constexpr size_t kMaxGrammarBytes = 256 << 10;  // of a source
inline constexpr int kMaxGrammarChoices = 1024;
inline constexpr int kMaxGrammarSchemas = 1024;

// A rule of a GBNF text that JSON Schema defines: `text` refers to it by `name`.
struct SchemaRule {
  std::string name;
  std::string schema;  // a JSON Schema, an object
  // Which part of the document the rule matches: the members to go through from its root.
  // References within that part are those of the whole document.
  std::vector<std::string> path = {};

  friend bool operator==(const SchemaRule&, const SchemaRule&) = default;
};

struct GrammarSource {
  enum class Kind {
    kJsonObject,  // any JSON object
    kJsonSchema,  // `text`: a JSON Schema, an object
    kRegex,       // `text`: a regular expression that the whole text matches
    kChoice,      // the text is one of `choices`
    kGbnf,        // `text`: a grammar in llama.cpp's GBNF, whose rule `root` the text matches
  };
  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  std::vector<SchemaRule> schemas = {};  // of kGbnf

  size_t bytes() const;
  friend bool operator==(const GrammarSource&, const GrammarSource&) = default;
};

// Its sizes; no look into its text. kInvalidArgument.
Status Validate(const GrammarSource& source);

}  // namespace outrider
