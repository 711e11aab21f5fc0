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

  size_t bytes() const;
  friend bool operator==(const GrammarSource&, const GrammarSource&) = default;
};

// Its sizes; no look into its text. kInvalidArgument.
Status Validate(const GrammarSource& source);

}  // namespace outrider
